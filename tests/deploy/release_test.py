"""scripts/release.sh refuses what is no release before it builds anything, and makes files whose checksums are right.

The builds are played by stand-ins: release_run_test.py makes a release from a clean clone. oci_archive.py and cuda_toolkit.sh are run as
they are.
"""
import hashlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = ("release.sh", "parts.sh", "cuda_toolkit.sh", "oci_archive.py")
TOOLKIT = ("bin/nvcc", "include/cublasLt.h", "lib/libcudart_static.a", "lib/libcublasLt.so.12", "EULA.txt")
# Each notes its arguments, and makes small files of the names that the real one gives. FAIL names one that fails, and FAIL_CUDA one that
# fails with --cuda.
STAND_IN = """#!/bin/bash
set -euo pipefail
name=$(basename "$0")
echo "$name $*" >>"$LOG"
[[ ${FAIL:-} != "$name" && (${FAIL_CUDA:-} != "$name" || "$*" != *--cuda*) ]] || { echo "$name fails" >&2 && exit 7; }
"""
BUILD_RELEASE = STAND_IN + "echo build/made\n"
BUILD_PACKAGE = STAND_IN + """
[[ "$*" == *--cuda* ]] || touch "$2/baton_0.1.0-1_amd64.deb"
kind=$([[ "$*" == *--cuda* ]] && echo -cuda || true)
date -u -d "@$SOURCE_DATE_EPOCH" >"$2/baton-0.1.0-linux-x86_64$kind.tar.gz"
"""
BUILD_IMAGES = STAND_IN + """
[[ $1 != --check ]] || exit 0
for image in "$@"; do [[ $image == --* || $image == */* ]] || touch "$4/$image.oci.tar"; done
"""


def made(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class OnAClone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.clone = self.folder / "clone"
        (self.clone / "scripts").mkdir(parents=True)
        for name in OWN:
            shutil.copy(ROOT / "scripts" / name, self.clone / "scripts")
        for name, text in (("build_release", BUILD_RELEASE), ("build_package", BUILD_PACKAGE), ("build_images", BUILD_IMAGES)):
            made(self.clone / f"scripts/{name}.sh", text)
        (self.clone / "CMakeLists.txt").write_text("project(baton VERSION 0.1.0 LANGUAGES CXX)\n")
        shutil.copy(ROOT / ".gitignore", self.clone)
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "--quiet", "-m", "all")
        self.toolkit = self.folder / "cuda"
        for name in TOOLKIT:
            made(self.toolkit / name, "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n")

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], cwd=self.clone, check=True, capture_output=True, text=True).stdout

    def release(self, *arguments, **variables):
        environment = {**os.environ, "LOG": str(self.folder / "log"), **variables}
        return subprocess.run(["scripts/release.sh", *map(str, arguments)], cwd=self.clone, env=environment, check=False,
                              capture_output=True, text=True, timeout=60)

    def log(self):
        """The commands that ran, but the check of the container tool."""
        file = self.folder / "log"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if "--check" not in line]

    def assert_refused(self, done, *words):
        """It said so, and neither built nor left anything."""
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.log(), [])
        self.assertFalse((self.clone / "dist").exists())


class Refusals(OnAClone):
    def test_a_version_that_is_none_or_not_the_source_trees_is_refused(self):
        for version in ("0.1", "v0.1.0", "0.1.0-rc1", "0.1.0.0", "00.1.0", "0.01.0", "0.1.x", "0.1.0 "):
            with self.subTest(version=version):
                self.assert_refused(self.release("--cpu-only", version), f"'{version}' is not of the form X.Y.Z", "0.1.0")
        for version in ("0.2.0", "1.1.0", "0.1.1", "0.1.10"):
            with self.subTest(version=version):
                self.assert_refused(self.release("--cpu-only", version), f"the version is {version}", "CMakeLists.txt has 0.1.0")
        self.assert_refused(self.release("--cpu-only"), "name the version", "0.1.0")
        self.assert_refused(self.release("--cpu-only", "0.1.0", "0.1.0"), "one VERSION is enough")

    def test_a_tree_with_changes_is_refused_and_they_are_named(self):
        def staged():
            made(self.clone / "staged.cc", "")
            self.git("add", "staged.cc")

        changes = {
            "CMakeLists.txt": lambda: (self.clone / "CMakeLists.txt").write_text("project(baton VERSION 0.1.0)\n"),
            "scripts/parts.sh": lambda: (self.clone / "scripts/parts.sh").chmod(0o755),
            "a new file.txt": lambda: made(self.clone / "a new file.txt", ""),
            "staged.cc": staged,
            ".gitignore": (self.clone / ".gitignore").unlink,
        }
        for name, change in changes.items():
            with self.subTest(name=name):
                change()
                self.assert_refused(self.release("--cpu-only", "0.1.0"), name, "commit them")
                self.git("reset", "--quiet", "--hard")
                self.git("clean", "--quiet", "-fd")
        made(self.clone / "build/object.o", "")  # what git ignores is no change
        made(self.clone / "another.txt", "")
        done = self.release("--cpu-only", "--allow-dirty", "0.1.0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("with changes that are not committed", done.stdout)

    def test_a_copy_without_git_is_refused(self):
        shutil.rmtree(self.clone / ".git")
        self.assert_refused(self.release("--cpu-only", "0.1.0", GIT_CEILING_DIRECTORIES=str(self.folder)), "is no clone of the repository")

    def test_what_is_missing_on_the_machine_is_named_with_the_remedy(self):
        self.assert_refused(self.release("--cpu-only", "0.1.0", FAIL="build_images.sh"), "the images cannot be built", "build_images.sh fails")
        nowhere = self.folder / "nowhere"
        self.assert_refused(self.release("--cuda", nowhere, "0.1.0"), f"{nowhere} has no bin/nvcc", "--cpu-only", "--cuda")
        self.assert_refused(self.release("--cuda", self.toolkit, "--cpu-only", "0.1.0"), "exclude each other")
        for name in TOOLKIT:
            with self.subTest(name=name):
                (self.toolkit / name).rename(self.folder / "away")
                self.assert_refused(self.release("--cuda", self.toolkit, "0.1.0"), f"{self.toolkit} has no ", "--cpu-only")
                (self.folder / "away").rename(self.toolkit / name)

    def test_the_images_need_a_container_tool_and_the_front_its_programs(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("bash", "dirname", "sed", "env"):
            (tools / name).symlink_to(shutil.which(name))
        done = subprocess.run([ROOT / "scripts/build_images.sh", "--check"], env={"PATH": str(tools)}, capture_output=True, text=True,
                              check=False, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "neither podman nor buildah nor docker runs here: apt-get install .*podman")

    def test_a_folder_that_has_files_is_not_written_to(self):
        made(self.folder / "out/old.deb", "")
        self.assert_refused(self.release("--cpu-only", "--out", self.folder / "out", "0.1.0"), f"{self.folder}/out is there already", "--out")
        made(self.folder / "file", "")
        self.assert_refused(self.release("--cpu-only", "--out", self.folder / "file", "0.1.0"), "is there already")
        self.assert_refused(self.release("--cpu-only", "--frobnicate", "0.1.0"), "unknown flag '--frobnicate'")

    def test_a_build_that_fails_leaves_no_release(self):
        for failing in ("FAIL", "FAIL_CUDA"):
            for name in ("build_release.sh", "build_package.sh", "build_images.sh")[:3 if failing == "FAIL_CUDA" else 2]:
                self.assert_leaves_nothing(name, **{failing: name})

    def assert_leaves_nothing(self, name, **variables):
        with self.subTest(**variables):
            done = self.release("--cuda", self.toolkit, "0.1.0", **variables)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{name} fails", done.stderr)
            self.assertEqual(list((self.clone / "dist").iterdir()), [])


class Release(OnAClone):
    def test_it_has_packages_and_images_of_both_kinds_and_their_checksums(self):
        done = self.release("--cuda", self.toolkit, "0.1.0")
        self.assertEqual(done.returncode, 0, done.stderr)
        out = self.clone / "dist/0.1.0"
        self.assertEqual({path.name for path in out.iterdir()},
                         {"baton_0.1.0-1_amd64.deb", "baton-0.1.0-linux-x86_64.tar.gz", "baton-0.1.0-linux-x86_64-cuda.tar.gz",
                          "baton.oci.tar", "router.oci.tar", "prefill-worker.oci.tar", "decode-worker.oci.tar", "front.oci.tar",
                          "SHA256SUMS"})
        sums = dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
        self.assertEqual({name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in sums}, sums)
        self.assertEqual(set(sums), {path.name for path in out.iterdir()} - {"SHA256SUMS"})
        self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o755)
        images = [line.split()[7:] for line in self.log() if line.startswith("build_images.sh")]
        self.assertEqual(images, [["baton", "router", "prefill-worker", "decode-worker", "front"],
                                  ["--cuda", str(self.toolkit), "baton", "prefill-worker", "decode-worker"]])
        for title in ("build: CPU", "packages: CPU", "images: CPU", "build: CUDA", "packages: CUDA", "images: CUDA"):
            self.assertEqual(done.stdout.count(title), 2, title)  # when it begins, and how long it took

    def test_without_cuda_nothing_of_cuda_is_made(self):
        done = self.release("--cpu-only", "--out", self.folder / "out", "0.1.0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse([line for line in self.log() if "cuda" in line])
        self.assertIn("without CUDA", done.stdout)
        self.assertFalse((self.clone / "dist").exists())

    def test_files_have_the_time_of_the_commit(self):
        self.release("--cpu-only", "--out", self.folder / "out", "0.1.0", SOURCE_DATE_EPOCH="1")
        committed = subprocess.run(["date", "-u", "-d", f"@{self.git('log', '-1', '--format=%ct').strip()}"], check=True,
                                   stdout=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout
        self.assertEqual((self.folder / "out/baton-0.1.0-linux-x86_64.tar.gz").read_text(), committed)


class OciArchive(unittest.TestCase):
    """scripts/oci_archive.py."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.layout = self.folder / "layout"
        self.config, self.layer, self.other = self.blob(b"{}"), self.blob(b"layer"), self.blob(b"of another image")
        manifest = {"config": {"digest": self.config}, "layers": [{"digest": self.layer}]}
        self.manifest = self.blob(json.dumps(manifest).encode())
        self.write_index([self.descriptor()])

    def blob(self, content):
        digest = hashlib.sha256(content).hexdigest()
        path = self.layout / "blobs/sha256" / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"sha256:{digest}"

    def descriptor(self):
        return {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": self.manifest, "size": 1,
                "annotations": {"org.opencontainers.image.ref.name": "localhost/baton:0.1.0"}}

    def write_index(self, manifests):
        (self.layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))

    def pack(self, name="archive.tar", epoch="1000000000"):
        return subprocess.run([sys.executable, "-B", ROOT / "scripts/oci_archive.py", self.layout, "docker.io/library/baton:0.1.0",
                               self.folder / name], env={"SOURCE_DATE_EPOCH": epoch}, capture_output=True, text=True, check=False)

    def test_it_has_the_image_under_the_name_for_which_nodes_look_in_both_forms(self):
        self.assertEqual(self.pack().returncode, 0)
        with tarfile.open(self.folder / "archive.tar") as archive:
            names = archive.getnames()
            index, docker = (json.load(archive.extractfile(name)) for name in ("index.json", "manifest.json"))
        paths = {digest: digest.replace("sha256:", "blobs/sha256/") for digest in (self.manifest, self.config, self.layer)}
        self.assertEqual(sorted(names), sorted([*paths.values(), "index.json", "manifest.json", "oci-layout"]))
        self.assertEqual(set(index["manifests"][0]["annotations"].values()), {"docker.io/library/baton:0.1.0"})
        self.assertEqual(docker, [{"Config": paths[self.config], "RepoTags": ["baton:0.1.0"], "Layers": [paths[self.layer]]}])

    def test_one_image_gives_the_same_bytes_whatever_the_time_of_its_files(self):
        self.pack("1.tar")
        os.utime(self.layout / self.layer.replace("sha256:", "blobs/sha256/"), (0, 0))
        self.pack("2.tar")
        self.assertEqual((self.folder / "1.tar").read_bytes(), (self.folder / "2.tar").read_bytes())

    def test_what_is_no_image_or_more_than_one_is_refused(self):
        for manifests in ([], [self.descriptor()] * 2, [{**self.descriptor(), "mediaType": "application/vnd.oci.image.index.v1+json"}]):
            with self.subTest(manifests=len(manifests)):
                self.write_index(manifests)
                done = self.pack()
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("must describe one image", done.stderr)
        (self.layout / "index.json").unlink()
        self.assertIn("no index.json", self.pack().stderr)


if __name__ == "__main__":
    unittest.main()

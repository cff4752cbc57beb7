"""A release for the CPU, made by one command from a clean clone, has all its files, and they can be loaded and run.

    release_run_test.py      as root

It compiles the programs in a folder below build/. Exits with 77, CTest's "skipped", with the reason where podman cannot run.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import private_podman  # noqa: E402

try:
    private_podman.inside()
    podman = private_podman.Podman()
except private_podman.NotAllowed as why:
    print(f"skipped: {why}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(baton VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
IMAGES = ("baton", "baton-router", "baton-prefill-worker", "baton-decode-worker", "baton-front")


def output(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (ROOT / "build").mkdir(exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="release-")
        cls.addClassCleanup(folder.cleanup)
        clone = pathlib.Path(folder.name) / "clone"
        output("git", "clone", "--quiet", ROOT, clone)
        environment = {**os.environ, "CCACHE_BASEDIR": str(clone), "CCACHE_NOHASHDIR": "1"}
        subprocess.run([clone / "scripts/release.sh", "--cpu-only", VERSION], check=True, env=environment, stdout=sys.stderr)
        cls.changes = output("git", "-C", clone, "status", "--porcelain")
        cls.out = clone / "dist" / VERSION

    def test_it_has_all_its_files_with_right_checksums_and_leaves_the_clone_clean(self):
        files = [f"baton_{VERSION}-1_amd64.deb", f"baton-{VERSION}-linux-x86_64.tar.gz"]
        images = [f"{image}-{VERSION}" for image in IMAGES]
        wanted = {*files, *(f"{file}.spdx.json" for file in files), *(f"{image}.oci.tar" for image in images),
                  *(f"{image}.spdx.json" for image in images), "SHA256SUMS"}
        self.assertEqual({path.name for path in self.out.iterdir()}, wanted)
        checked = output("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.out).splitlines()
        self.assertEqual({line.partition(": ")[0] for line in checked}, wanted - {"SHA256SUMS"})
        self.assertEqual(self.changes, "")

    def test_each_bill_is_about_the_file_beside_it(self):
        for path in self.out.glob("*.spdx.json"):
            bill = json.loads(path.read_text())
            self.assertIn(f"{bill['packages'][0]['name']}", path.name)
            self.assertGreater(len(bill["packages"]), 1, path.name)

    def test_the_package_and_the_archive_are_of_that_version(self):
        self.assertEqual(output("dpkg-deb", "--field", self.out / f"baton_{VERSION}-1_amd64.deb", "Version").strip(), f"{VERSION}-1")
        with tempfile.TemporaryDirectory() as folder:
            output("tar", "-C", folder, "-xzf", self.out / f"baton-{VERSION}-linux-x86_64.tar.gz")
            (program,) = pathlib.Path(folder).glob("*/bin/baton")
            self.assertEqual(output("env", "-i", program, "--version").strip(), VERSION)

    def test_each_image_is_loaded_under_its_name_and_programs_in_it_run(self):
        podman("image", "rm", "--all", "--force")  # those that the release has made
        for image in IMAGES:
            name = f"docker.io/library/{image}:{VERSION}"
            self.assertIn(name, podman("load", "--input", str(self.out / f"{image}-{VERSION}.oci.tar")))
        self.assertEqual(podman("run", "--rm", "--entrypoint", "baton", f"baton:{VERSION}", "--version"), VERSION)
        for program in IMAGES[1:4]:
            self.assertIn(VERSION, podman("run", "--rm", f"{program}:{VERSION}", "--version"))


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""What scripts/build_package.sh packs of a build: files, modes, dependencies, settings, scripts; and the archive runs elsewhere.

    package_test.py FOLDER_OF_BUILD

Nothing is compiled, and nothing is installed: package_life_test.py does that.
"""

import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = None
COMMANDS = ["baton", "baton-decode-worker", "baton-prefill-worker", "baton-router"]
NEWEST_GLIBC = (2, 36)  # Debian 12's
MACHINES_OWN = re.compile(r"(ld-linux.*|libc|libm|libmvec|libdl|librt|libpthread|libresolv|linux-vdso)\.so")
work = None  # a folder that is deleted in the end
package = archive = None  # their paths


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, timeout=150, **options)
    return done.stdout


def setUpModule():
    global work, package, archive
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    work = pathlib.Path(folder.name)
    environment = {**os.environ, "BATON_PACKAGE_COMPRESSION": "zstd"}  # the fastest
    package, archive = output(ROOT / "scripts/build_package.sh", "--out", work, "--bills", work, BUILD, env=environment).split()
    (work / "control").mkdir()
    output("dpkg-deb", "--control", package, work / "control")
    output("dpkg-deb", "--extract", package, work / "files")
    (work / "else where").mkdir()
    output("tar", "-C", work / "else where", "-xzf", archive)


def dynamic(program):
    """What the ELF file says of its libraries."""
    return output("readelf", "-dW", program)


class Package(unittest.TestCase):
    def control(self, field):
        return output("dpkg-deb", "--field", package, field).strip()

    def members(self):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as process:
            with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                return {member.name.removeprefix("."): member for member in tar}

    def test_it_has_what_is_where_debian_has_it(self):
        names = set(self.members())
        wanted = {f"/usr/bin/{name}" for name in COMMANDS}
        self.assertEqual({name for name in names if re.match(r"/usr/s?bin/.", name)}, wanted)
        pages = {f"/usr/share/man/man1/{name}.1.gz" for name in ("baton", "baton-run", "baton-certs-issue", "baton-bench-engine")}
        pages |= {f"/usr/share/man/man8/{name}.8.gz" for name in COMMANDS[1:]}
        units = {f"/usr/lib/systemd/system/{path.name}" for path in (ROOT / "deploy/systemd").glob("*.service")}
        completions = {f"/usr/share/bash-completion/completions/{name}" for name in COMMANDS}
        others = {"/usr/libexec/baton/baton-grammar-compiler", "/usr/lib/sysusers.d/baton.conf", "/var/lib/baton/models",
                  "/usr/share/zsh/vendor-completions/_baton", "/usr/share/doc/baton/copyright", "/usr/share/doc/baton/changelog.gz",
                  "/usr/share/doc/baton/changelog.Debian.gz", "/usr/share/doc/baton/NOTICE.xgrammar"}
        self.assertEqual((pages | units | completions | others) - names, set())
        self.assertNotIn("/usr/share/zsh/site-functions/_baton", names)
        self.assertFalse([name for name in names if name.startswith(("/usr/local", "/usr/include", "/tmp", "/home", "/root"))])

    def test_everything_is_roots_and_nobody_else_writes(self):
        for name, member in self.members().items():
            with self.subTest(name=name):
                self.assertEqual((member.uid, member.gid), (0, 0))
                is_program = name.startswith(("/usr/bin/", "/usr/libexec/baton/"))
                self.assertEqual(stat.S_IMODE(member.mode), 0o755 if member.isdir() or is_program else 0o644)

    def test_settings_are_those_that_dpkg_asks_about(self):
        settings = sorted(name for name, member in self.members().items() if name.startswith("/etc/") and member.isfile())
        self.assertEqual((work / "control/conffiles").read_text().split(), settings)
        self.assertEqual(len(settings), 5)

    def test_it_needs_the_libraries_of_its_programs_and_someone_who_makes_the_user(self):
        depends = self.control("Depends")
        for wanted in (r"\blibc6 \(>= 2\.\d+\)", r"\blibgrpc\+\+1\.51\b", r"\blibssl3\b", r"\blibstdc\+\+6\b",
                       r"\bsystemd-standalone-sysusers \| systemd\b"):
            self.assertRegex(depends, wanted)
        self.assertEqual(self.control("Package"), "baton")
        self.assertRegex(self.control("Version"), r"^\d+\.\d+\.\d+-1$")
        self.assertEqual(self.control("Architecture"), output("dpkg", "--print-architecture").strip())

    def test_programs_are_stripped_and_look_for_libraries_in_the_system_only(self):
        for program in [*(work / "files/usr/bin").iterdir(), work / "files/usr/libexec/baton/baton-grammar-compiler"]:
            with self.subTest(program=program.name):
                self.assertNotRegex(dynamic(program), r"RPATH|RUNPATH")
                self.assertNotIn(".symtab", output("readelf", "-SW", program))

    def test_units_start_the_packages_programs(self):
        for unit in (work / "files/usr/lib/systemd/system").iterdir():
            program = re.search(r"^ExecStart=(\S+)", unit.read_text(), re.MULTILINE).group(1)
            self.assertTrue((work / "files" / program[1:]).is_file(), program)

    def test_scripts_are_understood_and_start_and_enable_nothing(self):
        for name in ("postinst", "prerm", "postrm"):
            script = work / "control" / name
            self.assertEqual(stat.S_IMODE(script.stat().st_mode), 0o755)
            output("sh", "-n", script)
            commands = [line for line in script.read_text().splitlines() if not line.lstrip().startswith("#")]
            self.assertNotRegex("\n".join(commands), r"(?<!try-)\b(re)?start\b|\benable\b")

    def test_it_has_no_path_of_the_build(self):
        for path in (work / "files").rglob("*"):
            if path.is_file() and path.parent.name not in ("bin", "baton"):
                self.assertNotIn(str(ROOT).encode(), path.read_bytes(), path)


class Bills(unittest.TestCase):
    """The bills of materials of the package and of the archive."""

    def related(self, file, kind):
        """The names of the packages that the bill of the file relates to it in that way."""
        bill = json.loads(pathlib.Path(f"{file}.spdx.json").read_text())
        self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
        names = {package["SPDXID"]: package["name"] for package in bill["packages"]}
        (described,) = [item["relatedSpdxElement"] for item in bill["relationships"] if item["relationshipType"] == "DESCRIBES"]
        self.assertEqual(names[described], pathlib.Path(file).name)
        return {names[item["relatedSpdxElement"]] for item in bill["relationships"] if item["relationshipType"] == kind}

    def test_the_package_depends_on_libraries_and_contains_none(self):
        self.assertEqual(self.related(package, "CONTAINS"), set())
        depends = output("dpkg-deb", "--field", package, "Depends").replace(", ", "\n")
        declared = set(re.findall(r"^([a-z0-9.+-]+)", depends, re.MULTILINE)) - {"systemd-standalone-sysusers"}
        # The name of spdlog's ABI is provided by its package.
        declared = {"libspdlog1.10" if name.startswith("libspdlog1.10-") else name for name in declared}
        self.assertLessEqual(declared, self.related(package, "DEPENDS_ON"))

    def test_the_archive_contains_libraries_but_glibc(self):
        (folder,) = (work / "else where").iterdir()
        licences = {path.name for path in (folder / "share/doc/baton/libraries").iterdir()}
        self.assertEqual(self.related(archive, "CONTAINS"), licences)
        self.assertEqual(self.related(archive, "DEPENDS_ON"), {"libc6"})

    def test_both_name_what_is_compiled_in(self):
        for file in (package, archive):
            self.assertLessEqual({"xgrammar", "marked", "libabsl-dev"}, self.related(file, "STATIC_LINK"))


class Archive(unittest.TestCase):
    def setUp(self):
        (self.folder,) = (work / "else where").iterdir()

    def test_its_name_says_version_and_machine(self):
        self.assertRegex(pathlib.Path(archive).name, r"^baton-\d+\.\d+\.\d+-linux-x86_64\.tar\.gz$")
        self.assertEqual(f"{self.folder.name}.tar.gz", pathlib.Path(archive).name)

    def test_programs_find_their_libraries_in_it_and_no_others(self):
        for program in (self.folder / "bin").iterdir():
            with self.subTest(program=program.name):
                # Nothing else is searched, such as the working folder, for which an empty name stands.
                self.assertEqual(re.findall(r"RPATH.*\[(.*)\]", dynamic(program)), ["$ORIGIN/../lib"])
                needed = output("env", "-i", "/bin/sh", "-c", 'ldd "$0"', program)
                foreign = [line for line in needed.splitlines() if "=>" in line and f"=> {self.folder}/" not in line
                           and not MACHINES_OWN.search(line)]
                self.assertEqual(foreign, [])
        self.assertRegex(output("env", "-i", self.folder / "bin/baton", "--version"), r"^\d+\.\d+\.\d+$")

    def test_it_runs_where_glibc_is_debian_12s(self):
        symbols = output("objdump", "-T", *(self.folder / "bin").iterdir(), *(self.folder / "lib").iterdir())
        versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
        self.assertLessEqual(max(versions), NEWEST_GLIBC)

    def test_each_library_comes_with_its_licence(self):
        licences = list((self.folder / "share/doc/baton/libraries").iterdir())
        self.assertTrue((self.folder / "share/doc/baton/libraries/libgrpc29").is_file())
        self.assertTrue(all("icen" in licence.read_text(errors="replace") for licence in licences))
        self.assertTrue((self.folder / "share/doc/baton/LICENSE").is_file())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

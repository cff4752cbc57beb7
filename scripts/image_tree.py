#!/usr/bin/env python3
"""Lays out the files of one image, and writes its bill of materials (SPDX 2.3, JSON).

    image_tree.py PROGRAM... --out FOLDER --sbom FILE --name NAME --version VERSION [--xgrammar FOLDER]
                  [--folder HERE:THERE] [--library FILE]...

FOLDER becomes the image's root: the stripped programs, the libraries that they load (--library: those that they open by name)
with the loader, the certificates of authorities, and the user of the manifests; no shell, no package manager. The libraries are
this machine's, so the bill has their Debian packages. A licence is said where the package's copyright file has one for all files.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

DOCUMENTS = pathlib.Path("/usr/share/doc")
MARKED = pathlib.Path(__file__).resolve().parents[1] / "router/page/vendor/marked"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
OF_THE_NODE = {"libcuda.so.1"}  # the driver's, which must be the kernel module's
NOBODY_SAYS = "NOASSERTION"
# Short names of Debian's copyright files that are not SPDX's.
SPDX = {"Apache-2.0": "Apache-2.0", "BSD-3-clause": "BSD-3-Clause", "BSD-3-Clause": "BSD-3-Clause", "BSD-2-clause": "BSD-2-Clause",
        "Expat": "MIT", "MIT": "MIT", "BSL-1.0": "BSL-1.0", "Zlib": "Zlib", "zlib": "Zlib", "ISC": "ISC"}
# Debian packages whose headers or archives are compiled into the programs.
COMPILED_IN = ["libabsl-dev", "libboost1.81-dev", "libcli11-dev", "libcpp-httplib-dev", "libtomlplusplus-dev", "nlohmann-json3-dev"]


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def libraries(programs):
    """What the loader finds for them: {name as it is asked for: path here}."""
    found = {}
    for program in programs:
        for line in output("ldd", str(program)).splitlines():
            name, arrow, path = (part.strip() for part in line.partition("=>"))
            if "not found" in path and name not in OF_THE_NODE:
                raise SystemExit(f"image_tree: {program} needs {name}, which is not on this machine")
            path = (path if arrow else name).partition(" (")[0]
            if path.startswith("/") and pathlib.Path(name.partition(" (")[0]).name not in OF_THE_NODE:
                found[pathlib.Path(path).name] = pathlib.Path(path)
    return found


def lay_out(out, programs, found):
    shutil.rmtree(out, ignore_errors=True)
    for folder in ("usr/local/bin", LIBRARIES, "usr/lib64", "etc/ssl/certs", "tmp"):
        (out / folder).mkdir(parents=True)
    (out / "tmp").chmod(0o1777)
    for name, target in (("lib", "usr/lib"), ("lib64", "usr/lib64"), ("bin", "usr/local/bin"), ("usr/bin", "local/bin")):
        (out / name).symlink_to(target)
    for program in programs:
        subprocess.run(["strip", "-o", str(out / "usr/local/bin" / program.name), str(program)], check=True)
    for name, path in found.items():
        shutil.copy(path, out / ("usr/lib64" if name.startswith("ld-linux") else LIBRARIES) / name)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", out / "etc/ssl/certs")
    (out / "etc/passwd").write_text("root:x:0:0::/:/nonexistent\nbaton:x:65532:65532::/:/nonexistent\n")
    (out / "etc/group").write_text("root:x:0:\nbaton:x:65532:\n")
    (out / "etc/nsswitch.conf").write_text("hosts: files dns\n")


def owners(paths):
    """The Debian package of each file here, None for those of none."""
    names = {}  # as a package may have it: with /usr or without
    for path in paths:
        real = os.path.realpath(path)
        names |= {real: path, real.removeprefix("/usr"): path, str(path): path}
    done = subprocess.run(["dpkg-query", "--search", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = dict.fromkeys(paths)
    for line in done.stdout.splitlines():
        package, _, name = line.rpartition(": ")
        if name in names:
            found[names[name]] = package.split(",")[0]
    return found


def licence(copyright_file):
    """The licence of all files (`Files: *`), where the copyright file is one that programs can read."""
    text = copyright_file.read_text(errors="replace") if copyright_file.is_file() else ""
    for stanza in re.split(r"\n\s*\n", text) if text.startswith("Format:") else ():
        if re.search(r"^Files:\s*\*\s*$", stanza, re.MULTILINE):
            match = re.search(r"^License:\s*(\S+)\s*$", stanza, re.MULTILINE)
            return SPDX.get(match[1], NOBODY_SAYS) if match else NOBODY_SAYS
    return NOBODY_SAYS


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def entry(name, version, declared=NOBODY_SAYS, **more):
    return {"SPDXID": spdx_id(name), "name": name, "versionInfo": version, "downloadLocation": NOBODY_SAYS, "filesAnalyzed": False,
            "licenseConcluded": NOBODY_SAYS, "licenseDeclared": declared, "copyrightText": NOBODY_SAYS, **more}


def debian_entry(package):
    name, version, architecture, homepage = output(
        "dpkg-query", "--show", "--showformat=${Package}\n${Version}\n${Architecture}\n${Homepage}", package).split("\n")
    purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
    return entry(name, version, licence(DOCUMENTS / name / "copyright"), supplier="Organization: Debian",
                 externalRefs=[reference], **({"homepage": homepage} if homepage else {}))


def bill(name, version, shipped, compiled_in, others, xgrammar, with_page):
    """The SPDX document. `others` are libraries of no Debian package, `xgrammar` is that library's folder or None; `with_page`: the
    router's page, with marked, is among the programs."""
    image = entry(name, version, "Apache-2.0" if xgrammar else NOBODY_SAYS, primaryPackagePurpose="CONTAINER", supplier=NOBODY_SAYS)
    contained = [debian_entry(package) for package in shipped]
    contained += [entry(path.name, hashlib.sha256(path.read_bytes()).hexdigest()[:12]) for path in others]
    linked = [debian_entry(package) for package in compiled_in]
    linked += [entry("xgrammar", re.search(r"xgrammar-([0-9.]+)", xgrammar.name)[1], "Apache-2.0")] if xgrammar else []
    linked += [entry("marked", re.search(r"marked ([0-9.]+),", (MARKED / "LICENSE").read_text())[1], "MIT")] if with_page else []
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", image["SPDXID"])]
    relations += [(image["SPDXID"], "CONTAINS", package["SPDXID"]) for package in contained]
    relations += [(image["SPDXID"], "STATIC_LINK", package["SPDXID"]) for package in linked]
    packages = [image, *contained, *linked]
    digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
            "documentNamespace": f"urn:baton:spdx:{name}:{version}:{digest}",
            "creationInfo": {"created": created, "creators": ["Tool: image_tree.py"]}, "packages": packages,
            "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations]}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("programs", nargs="+", type=pathlib.Path)
    flags.add_argument("--out", type=pathlib.Path, required=True)
    flags.add_argument("--sbom", type=pathlib.Path, required=True)
    flags.add_argument("--name", required=True)
    flags.add_argument("--version", required=True)
    flags.add_argument("--xgrammar", type=pathlib.Path, metavar="FOLDER", help="of scripts/build_xgrammar.sh; licences lie there")
    flags.add_argument("--folder", metavar="HERE:THERE", help="a folder that is copied as it is")
    flags.add_argument("--library", type=pathlib.Path, action="append", default=[])
    options = flags.parse_args()

    found = libraries(options.programs + options.library)
    found |= {path.name: path for path in options.library}
    lay_out(options.out, options.programs, found)
    if options.folder:
        here, _, there = options.folder.partition(":")
        shutil.copytree(here, options.out / there)
    packages = owners([*found.values(), *(path for path in options.programs if path.is_relative_to("/usr"))])
    shipped = sorted({"ca-certificates", *filter(None, packages.values())})
    ours = options.xgrammar is not None
    compiled_in = [package for package in COMPILED_IN if ours and (DOCUMENTS / package).is_dir()]
    copyrights = [DOCUMENTS / package.partition(":")[0] / "copyright" for package in shipped + compiled_in]
    if options.xgrammar:
        copyrights += [options.xgrammar / name for name in ("LICENSE", "NOTICE", "LICENSE.picojson")]
    with_page = any(program.name == "baton-router" for program in options.programs)
    copyrights += [MARKED / "LICENSE"] if with_page else []
    for source in filter(pathlib.Path.is_file, copyrights):
        folder = options.out / "usr/share/doc" / source.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder)
    others = sorted(path for path, package in packages.items() if package is None)
    document = bill(options.name, options.version, shipped, compiled_in, others, options.xgrammar, with_page)
    options.sbom.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()

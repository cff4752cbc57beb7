#!/usr/bin/env python3
"""Writes the bill of materials of a package of Baton's programs (SPDX 2.3, JSON).

    bill_of_materials.py PROGRAM... --purpose ARCHIVE|INSTALL --sbom FILE --name NAME --version VERSION --xgrammar FOLDER [--cuda N]

ARCHIVE: the package contains the libraries that the programs load, except those of glibc. INSTALL: it is a Debian package, which
depends on them. The libraries are this machine's, so the bill has their Debian packages. A licence is given if the package's copyright
file names one for all files. image_tree.py writes the bills of images with the functions of this module.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import time

DOCUMENTS = pathlib.Path("/usr/share/doc")
MARKED = pathlib.Path(__file__).resolve().parents[1] / "router/page/vendor/marked"
OF_THE_NODE = {"libcuda.so.1"}  # the driver's, which must be the kernel module's
OF_GLIBC = {"libc6"}  # the package of the libraries that are the machine's own
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
                raise SystemExit(f"bill_of_materials: {program} needs {name}, which is not on this machine")
            path = (path if arrow else name).partition(" (")[0]
            if path.startswith("/") and pathlib.Path(name.partition(" (")[0]).name not in OF_THE_NODE:
                found[pathlib.Path(path).name] = pathlib.Path(path)
    return found


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


def compiled_in():
    """The packages of COMPILED_IN that are here."""
    return [package for package in COMPILED_IN if (DOCUMENTS / package).is_dir()]


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


def static_entries(xgrammar, cuda, with_page):
    """What is linked into the programs and is no Debian package. `xgrammar`: that library's folder or None; `cuda`: the version of the
    CUDA Toolkit or None; `with_page`: the router's page, with marked, is among the programs."""
    linked = [entry("xgrammar", re.search(r"xgrammar-([0-9.]+)", xgrammar.name)[1], "Apache-2.0")] if xgrammar else []
    linked += [entry("cuda-runtime", cuda)] if cuda else []
    linked += [entry("marked", re.search(r"marked ([0-9.]+),", (MARKED / "LICENSE").read_text())[1], "MIT")] if with_page else []
    return linked


def document(described, related):
    """The SPDX document about the entry `described`. `related` maps a kind of relationship to its entries."""
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", described["SPDXID"])]
    relations += [(described["SPDXID"], kind, each["SPDXID"]) for kind, entries in related.items() for each in entries]
    packages = [described, *(each for entries in related.values() for each in entries)]
    name, version = described["name"], described["versionInfo"]
    digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
            "documentNamespace": f"urn:baton:spdx:{name}:{version}:{digest}",
            "creationInfo": {"created": created, "creators": ["Tool: bill_of_materials.py"]}, "packages": packages,
            "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations]}


def write(path, made):
    path.write_text(json.dumps(made, indent=1) + "\n")


def add_flags(flags):
    """The flags that image_tree.py has too."""
    flags.add_argument("programs", nargs="+", type=pathlib.Path)
    flags.add_argument("--sbom", type=pathlib.Path, required=True)
    flags.add_argument("--name", required=True)
    flags.add_argument("--version", required=True)
    flags.add_argument("--xgrammar", type=pathlib.Path, metavar="FOLDER", help="of scripts/build_xgrammar.sh; licences lie there")
    flags.add_argument("--cuda", metavar="N", help="version of the CUDA Toolkit whose runtime is linked into the programs")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(flags)
    flags.add_argument("--purpose", choices=("ARCHIVE", "INSTALL"), required=True)
    options = flags.parse_args()

    needed = {package.partition(":")[0] for package in owners(libraries(options.programs).values()).values() if package}
    packed = options.purpose == "ARCHIVE"
    described = entry(options.name, options.version, "Apache-2.0", primaryPackagePurpose=options.purpose, supplier=NOBODY_SAYS)
    linked = list(map(debian_entry, compiled_in())) + static_entries(options.xgrammar, options.cuda, with_page=True)
    related = {"CONTAINS": sorted(needed - OF_GLIBC) if packed else [], "DEPENDS_ON": sorted(needed & OF_GLIBC if packed else needed)}
    write(options.sbom, document(described, {kind: list(map(debian_entry, names)) for kind, names in related.items()}
                                 | {"STATIC_LINK": linked}))


if __name__ == "__main__":
    main()

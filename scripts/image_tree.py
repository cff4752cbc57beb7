#!/usr/bin/env python3
"""Lays out the files of one image, and writes its bill of materials (SPDX 2.3, JSON).

    image_tree.py PROGRAM... --out FOLDER --sbom FILE --name NAME --version VERSION [--xgrammar FOLDER]
                  [--folder HERE:THERE] [--library FILE]... [--cuda N --cuda-licence FILE]

FOLDER becomes the image's root: the stripped programs, the libraries that they load (--library: those that they open by name)
with the loader, the certificates of authorities, and the user of the manifests; no shell, no package manager. The libraries are
this machine's, so the bill has their Debian packages. A licence is said where the package's copyright file has one for all files.
"""
import argparse
import hashlib
import pathlib
import shutil
import subprocess

from bill_of_materials import (DOCUMENTS, MARKED, NOBODY_SAYS, add_flags, compiled_in, debian_entry, document, entry, libraries, owners,
                               static_entries, write)

LIBRARIES = "usr/lib/x86_64-linux-gnu"


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


def bill(options, shipped, others, linked):
    """The SPDX document. `shipped` and `linked`: Debian packages; `others`: libraries of no Debian package."""
    ours = options.xgrammar is not None
    image = entry(options.name, options.version, "Apache-2.0" if ours else NOBODY_SAYS, primaryPackagePurpose="CONTAINER",
                  supplier=NOBODY_SAYS)
    contained = [debian_entry(package) for package in shipped]
    contained += [entry(path.name, hashlib.sha256(path.read_bytes()).hexdigest()[:12]) for path in others]
    compiled = [debian_entry(package) for package in linked]
    return document(image, {"CONTAINS": contained,
                            "STATIC_LINK": compiled + static_entries(options.xgrammar, options.cuda, has_page(options))})


def has_page(options):
    """Whether the router's page, with marked, is among the programs."""
    return any(program.name == "baton-router" for program in options.programs)


def copy_licence(source, out, of):
    folder = out / "usr/share/doc" / of
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, folder)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(flags)
    flags.add_argument("--out", type=pathlib.Path, required=True)
    flags.add_argument("--folder", metavar="HERE:THERE", help="a folder that is copied as it is")
    flags.add_argument("--library", type=pathlib.Path, action="append", default=[])
    flags.add_argument("--cuda-licence", type=pathlib.Path, metavar="FILE", help="NVIDIA's licence of that toolkit, which is copied")
    options = flags.parse_args()

    found = libraries(options.programs + options.library)
    found |= {path.name: path for path in options.library}
    lay_out(options.out, options.programs, found)
    if options.folder:
        here, _, there = options.folder.partition(":")
        shutil.copytree(here, options.out / there)
    packages = owners([*found.values(), *(path for path in options.programs if path.is_relative_to("/usr"))])
    shipped = sorted({"ca-certificates", *filter(None, packages.values())})
    linked = compiled_in() if options.xgrammar else []
    copyrights = [DOCUMENTS / package.partition(":")[0] / "copyright" for package in shipped + linked]
    if options.xgrammar:
        copyrights += [options.xgrammar / name for name in ("LICENSE", "NOTICE", "LICENSE.picojson")]
    copyrights += [MARKED / "LICENSE"] if has_page(options) else []
    for source in filter(pathlib.Path.is_file, copyrights):
        copy_licence(source, options.out, source.parent.name)
    if options.cuda_licence:
        copy_licence(options.cuda_licence, options.out, "cuda")
    others = sorted(path for path, package in packages.items() if package is None)
    write(options.sbom, bill(options, shipped, others, linked))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Packs an OCI image layout, a folder with one image, into an archive that docker, podman and containerd load.

    oci_archive.py FOLDER NAME FILE

NAME is the name of the image in the archive, such as docker.io/library/baton:0.1.0, the form in which a node of Kubernetes looks for
`baton:0.1.0`. Beside the layout the archive has the file manifest.json, without which docker loads only with containerd's image store.
The same image gives the same bytes: files have the time of SOURCE_DATE_EPOCH, or 0.
"""
import io
import json
import os
import pathlib
import sys
import tarfile

IMAGE_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
DOCKER_HUB = "docker.io/library/"


def blob_path(digest):
    return "blobs/" + digest.replace(":", "/")


def described_image(folder):
    """The descriptor of the folder's image."""
    index = folder / "index.json"
    if not index.is_file():
        raise SystemExit(f"oci_archive: {folder} has no index.json, so it is no OCI image layout; docker saves one from version 25 on")
    manifests = json.loads(index.read_text())["manifests"]
    if len(manifests) != 1 or manifests[0]["mediaType"] not in IMAGE_MANIFESTS:
        raise SystemExit(f"oci_archive: {index} must describe one image, and describes {len(manifests)} entries")
    return manifests[0]


def pack(folder, name, file):
    described = described_image(folder)
    described["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    manifest = json.loads((folder / blob_path(described["digest"])).read_text())
    config, layers = manifest["config"]["digest"], [layer["digest"] for layer in manifest["layers"]]
    texts = {
        "index.json": {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]},
        "manifest.json": [{"Config": blob_path(config), "RepoTags": [name.removeprefix(DOCKER_HUB)],
                           "Layers": list(map(blob_path, layers))}],
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
    }
    files = {path: json.dumps(text, sort_keys=True).encode() for path, text in texts.items()}
    files |= {blob_path(digest): folder / blob_path(digest) for digest in (described["digest"], config, *layers)}
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            add(archive, path, files[path])


def add(archive, path, content):
    """`content`: the bytes of the file, or its path here."""
    entry = tarfile.TarInfo(path)
    entry.mode, entry.mtime = 0o644, int(os.environ.get("SOURCE_DATE_EPOCH", 0))
    if isinstance(content, bytes):
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
        return
    entry.size = content.stat().st_size
    with content.open("rb") as source:
        archive.addfile(entry, source)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    pack(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3])

"""From an object of nvcc to what its kernels for one architecture are made of: cuobjdump takes the cubins out and tells their
resources, nvdisasm lists their instructions."""

import pathlib
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass

from . import figures, listing

ARCHITECTURE = "sm_90a"
RESOURCES = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:\d+ SHARED:(\d+)")
COMPILER = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")
UNTOLD = "before 13.0"  # cubins of CUDA 12 do not contain the version of nvcc
UNDECLARED_THREADS = 1024  # the most that a launch may have

# ELF, and attributes of the sections .nv.info.KERNEL: how an attribute is stored, and which one has the launch bound.
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
STORED_WITH_SIZE = 4
MAX_THREADS = 5


class Unusable(Exception):
    """The objects cannot be looked at, and why."""


@dataclass(frozen=True)
class Contents:
    compiler: str  # the version of nvcc
    kernels: dict[str, figures.Figures]  # by mangled name


def read(object_path, tools):
    """The kernels of the object. `tools` is the folder of cuobjdump and nvdisasm."""
    with tempfile.TemporaryDirectory() as folder:
        _run([tools / "cuobjdump", "-xelf", ARCHITECTURE, pathlib.Path(object_path).resolve()], folder)
        cubins = sorted(pathlib.Path(folder).glob(f"*.{ARCHITECTURE}.cubin"))
        if len(cubins) != 1:
            raise Unusable(f"{object_path}: {len(cubins)} cubins for {ARCHITECTURE}, not 1: configure the build with "
                           "-DBATON_CUDA_ARCHITECTURES=90a-real, or with a list that has it")
        cubin = cubins[0].read_bytes()
        resources = {name: (int(registers), int(shared)) for name, registers, shared in
                     RESOURCES.findall(_run([tools / "cuobjdump", "--dump-resource-usage", cubins[0]], folder))}
        functions = listing.parse(_run([tools / "nvdisasm", "-c", cubins[0]], folder).splitlines())
    threads = launch_bounds(cubin)
    compiler = COMPILER.search(cubin)
    return Contents(compiler.group(1).decode() if compiler else UNTOLD, {
        function.name: figures.figures_of(function, threads.get(function.name, UNDECLARED_THREADS), *resources[function.name])
        for function in functions if function.name in resources})


def _run(command, folder):
    done = subprocess.run([str(part) for part in command], cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unusable(f"{pathlib.Path(command[0]).name} {command[-1]}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def launch_bounds(cubin):
    """The most threads of a block, by kernel, where the kernel declares them."""
    bounds = {}
    for name, data in _sections(cubin):
        if not name.startswith(".nv.info."):
            continue
        at = 0
        while at + 4 <= len(data):
            stored, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if stored == STORED_WITH_SIZE:
                if attribute == MAX_THREADS:
                    x, y, z = struct.unpack_from("<III", data, at)
                    bounds[name.removeprefix(".nv.info.")] = x * y * z
                at += size
    return bounds


def _sections(elf):
    """(name, contents) of the sections of a 64-bit ELF file."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    count, names_index = struct.unpack_from("<HH", elf, 0x3C)
    headers = [SECTION_HEADER.unpack_from(elf, table + i * SECTION_HEADER.size) for i in range(count)]
    names_at = headers[names_index][4]
    for name, _, _, _, offset, size, *_ in headers:
        begin = names_at + name
        yield elf[begin:elf.index(b"\0", begin)].decode(), elf[offset:offset + size]

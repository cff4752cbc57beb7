"""A source that is compiled for one instruction set shares no function with the rest of the program: the linker keeps one
of two equal functions, and could keep the one that another CPU cannot run (common/backend/cpu/kernels/kernels.h)."""
import pathlib
import subprocess
import sys
import unittest

SIMD_TYPES = {
    "kernels_portable": "Portable",
    "kernels_avx2": "Avx2",
    "kernels_avx2_vnni": "Avx2Vnni",
    "kernels_avx512": "Avx512",
}


def shared_symbols(path):
    """The functions that other sources may define too, demangled."""
    out = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    symbols = []
    for line in out.splitlines():
        kind, _, name = line.lstrip("0123456789abcdef ").partition(" ")
        if kind in ("W", "V", "u"):
            symbols.append(name)
    return symbols


class KernelSymbols(unittest.TestCase):
    def test_every_shared_function_is_for_the_sources_own_simd_type(self):
        seen = set()
        for path in sys.argv[1:]:
            source = pathlib.Path(path).name.split(".")[0]
            if source not in SIMD_TYPES:
                continue
            seen.add(source)
            symbols = shared_symbols(path)
            self.assertTrue(symbols, f"{path}: no kernels")
            for name in symbols:
                own = f"<baton::{SIMD_TYPES[source]}"
                self.assertTrue(
                    f"{own}>" in name or f"{own}," in name,
                    f"{source}.cc: {name} could be linked into code for another CPU; make it always_inline",
                )
        self.assertEqual(seen, set(SIMD_TYPES))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

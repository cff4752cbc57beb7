"""The shipped programs are built hardened: elf_test.py BIN_FOLDER. What is checked is in the ELF files, whatever the flags said.

What cannot hold here: the note that switches IBT and the shadow stack on needs every object linked in to have it, and Debian
12's start files (crt1.o) have none. So it is checked that our own functions are ready for it: `main` begins with endbr64."""
import pathlib
import struct
import sys
import unittest

PROGRAMS = ["baton", "baton-router", "baton-prefill-worker", "baton-decode-worker", "baton-grammar-compiler"]
# What a program exports is what the shared libraries have too, so that both use one: tables and type information of gRPC,
# protobuf and spdlog. Functions that are inline in their headers are not among them.
MOST_EXPORTED = 400

ET_DYN, EM_X86_64 = 3, 62
PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 2, 3, 0x6474E551, 0x6474E552
PF_X = 1
DT_TEXTREL, DT_FLAGS, DT_FLAGS_1 = 22, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 8, 1, 0x08000000
SHT_SYMTAB, SHT_DYNSYM = 2, 11
ENDBR64 = b"\xf3\x0f\x1e\xfa"


class Elf:
    """The parts of a 64-bit little-endian ELF file that the test asks about."""

    def __init__(self, path):
        self.path, self.data = path, path.read_bytes()
        assert self.data[:6] == b"\x7fELF\x02\x01", f"{path} is no 64-bit little-endian ELF file"
        self.type, self.machine = struct.unpack_from("<HH", self.data, 16)
        phoff, shoff = struct.unpack_from("<QQ", self.data, 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", self.data, 54)
        # (type, flags, offset, address, size in the file)
        self.segments = [struct.unpack_from("<IIQQ8xQ", self.data, phoff + i * phentsize) for i in range(phnum)]
        # (name, type, flags, address, offset, size, link)
        self.sections = [struct.unpack_from("<IIQQQQI", self.data, shoff + i * shentsize) for i in range(shnum)]

    def segment(self, kind):
        return next((s for s in self.segments if s[0] == kind), None)

    def dynamic(self):
        """{tag: value}"""
        _, _, offset, _, size = self.segment(PT_DYNAMIC)
        return dict(struct.unpack_from("<qQ", self.data, at) for at in range(offset, offset + size, 16))

    def symbols(self, kind):
        """(name, section index, address) of each symbol in the table of that kind."""
        for _, section_type, _, _, offset, size, link in self.sections:
            if section_type != kind:
                continue
            names = self.sections[link][4]
            for at in range(offset + 24, offset + size, 24):
                name, _, _, section, address = struct.unpack_from("<IBBHQ", self.data, at)
                yield self.data[names + name:self.data.index(b"\0", names + name)].decode(), section, address

    def at_address(self, address, size):
        for _, _, offset, begin, length in self.segments:
            if begin <= address < begin + length and offset + length <= len(self.data):
                return self.data[offset + address - begin:offset + address - begin + size]
        return b""


class Hardened(unittest.TestCase):
    folder = None

    def programs(self):
        return [Elf(self.folder / name) for name in PROGRAMS]

    def test_the_program_is_loaded_anywhere(self):
        for elf in self.programs():
            self.assertEqual(elf.type, ET_DYN, elf.path)
            self.assertIsNotNone(elf.segment(PT_INTERP))
            self.assertTrue(elf.dynamic().get(DT_FLAGS_1, 0) & DF_1_PIE)
            self.assertNotIn(DT_TEXTREL, elf.dynamic())

    def test_addresses_of_functions_are_read_only_once_it_runs(self):
        for elf in self.programs():
            self.assertIsNotNone(elf.segment(PT_GNU_RELRO))
            dynamic = elf.dynamic()
            self.assertTrue(dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW, elf.path)

    def test_nothing_that_can_be_written_can_be_run(self):
        for elf in self.programs():
            self.assertFalse(elf.segment(PT_GNU_STACK)[1] & PF_X)
            for kind, flags, *_ in elf.segments:
                self.assertFalse(kind == 1 and flags & PF_X and flags & 2, "a segment to write and to run")

    def test_stacks_and_copies_are_checked(self):
        for elf in self.programs():
            wanted = {name for name, section, _ in elf.symbols(SHT_DYNSYM) if section == 0}
            self.assertTrue("__stack_chk_fail" in wanted, f"{elf.path}: no stack protector")
            self.assertTrue(any(name.endswith("_chk") for name in wanted), f"{elf.path}: no function of _FORTIFY_SOURCE")

    def test_indirect_calls_find_their_mark(self):
        for elf in self.programs():
            if elf.machine != EM_X86_64:
                self.skipTest("marks of indirect calls are x86's")
            main = [address for name, _, address in elf.symbols(SHT_SYMTAB) if name == "main"]
            self.assertEqual(len(main), 1)
            self.assertEqual(elf.at_address(main[0], 4), ENDBR64, elf.path)

    def test_waits_inside_libraries_follow_the_monotonic_clock(self):
        for elf in self.programs():
            exported = {name for name, section, _ in elf.symbols(SHT_DYNSYM) if section != 0}
            self.assertIn("syscall", exported, f"{elf.path}: libraries call another one than common/base/futex_clock.cc")

    def test_few_symbols_are_exported(self):
        for elf in self.programs():
            exported = [name for name, section, _ in elf.symbols(SHT_DYNSYM) if section != 0]
            self.assertLessEqual(len(exported), MOST_EXPORTED, elf.path)
            ours = [name for name in exported if name.startswith(("_ZN5baton", "_ZNK5baton"))]
            self.assertEqual(ours, [], "functions of our own")


if __name__ == "__main__":
    Hardened.folder = pathlib.Path(sys.argv.pop(1))
    unittest.main()

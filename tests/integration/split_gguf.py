"""Writes a GGUF file as several, as llama.cpp's llama-gguf-split does (the keys split.no, split.count, split.tensors.count)."""
import struct

ALIGNMENT = 32
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value, by GGUF's type
STRING, ARRAY, UINT16, INT32 = 8, 9, 2, 5


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value, = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return value

    def text(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            kind, count = self.take("I"), self.take("Q")
            for _ in range(count):
                self.skip(kind)
        else:
            self.at += SIZES[kind]


def text(value):
    return struct.pack("<Q", len(value)) + value


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def split(path, folder, count):
    """Writes model-00001-of-0000N.gguf and so on; returns the first one's path. REQUIRES: a file without general.alignment."""
    data = path.read_bytes()
    reader = Reader(data)
    assert reader.take("4s") == b"GGUF" and reader.take("I") == 3
    tensor_count, key_count = reader.take("Q"), reader.take("Q")
    keys_begin = reader.at
    for _ in range(key_count):
        assert reader.text() != b"general.alignment"
        reader.skip(reader.take("I"))
    keys = data[keys_begin:reader.at]
    tensors = []  # name, the bytes of shape and type, offset
    for _ in range(tensor_count):
        name, begin = reader.text(), reader.at
        dimensions = reader.take("I")
        reader.at += 8 * dimensions + 4
        tensors.append((name, data[begin:reader.at], reader.take("Q")))
    values = len(data[:reader.at]) + -reader.at % ALIGNMENT
    ends = sorted([offset for _, _, offset in tensors] + [len(data) - values])

    parts = [folder / f"model-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    for number, part in enumerate(parts):
        infos, payload = b"", b""
        own = tensors[number * tensor_count // count:(number + 1) * tensor_count // count]
        for name, shape, offset in own:
            infos += text(name) + shape + struct.pack("<Q", len(payload))
            end = ends[ends.index(offset) + 1]
            payload += padded(data[values + offset:values + end])
        added = b"".join(text(key) + struct.pack(f"<I{form}", kind, value) for key, kind, form, value in [
            (b"split.no", UINT16, "H", number), (b"split.count", UINT16, "H", count),
            (b"split.tensors.count", INT32, "i", tensor_count)])
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(own), 3 + (0 if number else key_count)) + added + (b"" if number else keys)
        part.write_bytes(padded(head + infos) + payload)
    return parts[0]

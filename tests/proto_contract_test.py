"""Every message, field, enum value and method of the contract's first version is in today's protos unchanged, so that who was
built by it is still understood. Called with protoc; the first version is in tests/data/proto_contract."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTRACT = ROOT / "tests" / "data" / "proto_contract"
FIELD = descriptor_pb2.FieldDescriptorProto
# Fields that are gone, and why. Only Baton's own parts sent them; name and number stay reserved, so that nothing else takes them.
GONE = {
    "baton.internal.v1.WorkerLoad.tokens_per_second":
        "an average over seconds in which the worker may have been idle; the router measures what it waits for",
}


def oneof(message, field):
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return f" in {message.oneof_decl[field.oneof_index].name}"


def message_facts(prefix, message):
    """What a message is on the wire and in code generated from it: a text for each name."""
    name = f"{prefix}.{message.name}"
    yield name, "message"
    for field in message.field:
        label = "optional" if field.proto3_optional else FIELD.Label.Name(field.label)
        kind = field.type_name or FIELD.Type.Name(field.type)
        yield f"{name}.{field.name}", f"{label} {kind} = {field.number}{oneof(message, field)}"
    for nested in message.nested_type:
        yield from message_facts(name, nested)
    for enum in message.enum_type:
        yield from enum_facts(name, enum)


def enum_facts(prefix, enum):
    yield f"{prefix}.{enum.name}", "enum"
    for value in enum.value:
        yield f"{prefix}.{enum.name}.{value.name}", str(value.number)


def service_facts(prefix, service):
    yield f"{prefix}.{service.name}", "service"
    for method in service.method:
        asks, answers = ("stream " * streams for streams in (method.client_streaming, method.server_streaming))
        yield f"{prefix}.{service.name}.{method.name}", f"{asks}{method.input_type} -> {answers}{method.output_type}"


def files(folder):
    """The descriptors of the protos of Baton in a folder."""
    names = sorted(path.relative_to(folder).as_posix() for path in (folder / "baton").rglob("*.proto"))
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([PROTOC, "-I", folder, f"--descriptor_set_out={out.name}", *names], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read()).file


def facts(folder):
    found = {}
    for file in files(folder):
        for message in file.message_type:
            found.update(message_facts(file.package, message))
        for enum in file.enum_type:
            found.update(enum_facts(file.package, enum))
        for service in file.service:
            found.update(service_facts(file.package, service))
    return found


def reserved(folder):
    """The names that messages reserve, and `message.number` of each number that they do."""
    found = set()

    def add(prefix, message):
        name = f"{prefix}.{message.name}"
        found.update(f"{name}.{field}" for field in message.reserved_name)
        found.update(f"{name}.{number}" for of in message.reserved_range for number in range(of.start, of.end))
        for nested in message.nested_type:
            add(name, nested)

    for file in files(folder):
        for message in file.message_type:
            add(file.package, message)
    return found


class Contract(unittest.TestCase):
    def setUp(self):
        self.contract = facts(CONTRACT)
        self.today = facts(ROOT / "proto")

    def test_the_contract_is_read(self):
        self.assertEqual(self.contract["baton.v1.GenerateRequest"], "message")
        self.assertGreater(len(self.contract), 200)

    def test_all_of_it_is_there_unchanged(self):
        changed = [f"{name}: {fact}, now {self.today.get(name, 'gone')}"
                   for name, fact in self.contract.items()
                   if name not in GONE and fact != self.today.get(name)]
        self.assertEqual(changed, [])

    def test_what_it_reserves_stays_reserved(self):
        self.assertLessEqual(reserved(CONTRACT), reserved(ROOT / "proto"))

    def test_what_is_gone_is_internal_and_stays_reserved(self):
        kept = reserved(ROOT / "proto")
        for name in GONE:
            message = name.rpartition(".")[0]
            number = self.contract[name].split(" = ")[1].split()[0]
            self.assertTrue(name.startswith("baton.internal."), name)
            self.assertNotIn(name, self.today)
            self.assertLessEqual({name, f"{message}.{number}"}, kept)


if __name__ == "__main__":
    PROTOC = sys.argv.pop(1)
    unittest.main()

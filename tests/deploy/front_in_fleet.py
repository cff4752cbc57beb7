"""The component front before the fleet of containers_test.py. `baton certs` makes the certificates that cert-manager would."""
import json
import socket
import ssl

import kustomize_subset
from played_fleet import (CLUSTER, OVERLAY, PATIENCE_S, OnPods, baton_run, deployment, pod_spec, podman, right_tokens, rolled_out,
                          told, tokens_over_http, tree)
from programs import issue, make_authority

NAME = "baton-front.baton.svc"  # name that clients in the cluster call
FLEET, CLIENTS = podman.folder / "fleet", podman.folder / "clients"  # the two authorities


def local_cpu_with_front():
    """The overlay local-cpu with mutual TLS instead of plain text, and the front."""
    folder = podman.folder / "local-cpu-with-front"
    folder.mkdir()
    components = [str(tree.KUBERNETES / "components" / name) for name in ("tls", "front")]
    (folder / "kustomization.yaml").write_text(json.dumps({"resources": [str(OVERLAY)], "components": components}))
    objects = kustomize_subset.build(folder)
    for role in tree.ROLES:
        container = pod_spec(objects, role)["containers"][0]
        container["args"] = [argument for argument in container["args"]
                             if not argument.startswith(("--insecure", "--http-allow-host"))]
    return objects


def secret(name, files):
    return {"kind": "Secret", "metadata": {"name": name}, "stringData": {key: file.read_text() for key, file in files.items()}}


def secrets(objects):
    """Those that cert-manager makes of the Certificates, and the operator's one."""
    made = []
    for authority in (FLEET, CLIENTS):
        make_authority(authority)
    for item in objects:
        if item["kind"] == "Certificate" and not item["spec"].get("isCA"):
            spec = item["spec"]
            authority = {"baton": FLEET, "baton-clients": CLIENTS}[spec["issuerRef"]["name"]]
            role = spec["uris"][0].rpartition("/")[2]
            issue(authority, role, *(f"--dns={name}" for name in spec.get("dnsNames", [])))
            made.append(secret(spec["secretName"], {"tls.crt": authority / f"{role}.crt", "tls.key": authority / f"{role}.key",
                                                    "ca.crt": authority / "ca.crt"}))
    return [*made, secret("baton-client-ca", {"tls.crt": CLIENTS / "ca.crt"}),
            secret("baton-fleet-secret", {"fleet-secret": FLEET / "fleet-secret"})]


class Front(OnPods):
    @classmethod
    def setUpClass(cls):
        cls.objects = local_cpu_with_front()
        cls.objects += secrets(cls.objects)
        rolled_out(cls.objects, "one pod of each with mutual TLS, and two fronts, are ready")

    @classmethod
    def tearDownClass(cls):
        deployment(cls.objects, "front")["spec"]["replicas"] = 0
        CLUSTER.apply(cls.objects)

    def test_a_prompt_through_each_front_has_the_tokens_that_it_has_without(self):
        tls = {"cert": CLIENTS / "client.crt", "key": CLIENTS / "client.key", "ca": FLEET / "ca.crt"}
        flags = [f"--tls-{what}={file}" for what, file in tls.items()]
        context = ssl.create_default_context(cafile=tls["ca"])
        context.load_cert_chain(tls["cert"], tls["key"])
        fronts = CLUSTER.listed("baton-front")
        self.assertEqual(len(fronts), deployment(self.objects, "front")["spec"]["replicas"])
        for pod in fronts:
            answer = baton_run(f"--server={pod.address}:8443", f"--tls-server-name={NAME}", *flags)
            self.assertEqual(answer["token_ids"], right_tokens())
            self.assertRegex(answer["timings"]["decode_worker"], "^decode-")
            connected = context.wrap_socket(socket.create_connection((pod.address, 9443), PATIENCE_S), server_hostname=NAME)
            self.assertEqual(tokens_over_http(connected, NAME), right_tokens())
            told(f"through {pod.name}: {answer['text']!r}")

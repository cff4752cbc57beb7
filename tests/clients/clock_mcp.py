"""An MCP server over standard input and output, with the tool time_in(city): it is noon everywhere."""
import json
import sys

TIME_IN = {"name": "time_in", "description": "Tells the time in a city.",
           "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def result(method, parameters):
    """What is answered; None: the method is unknown."""
    if method == "initialize":
        return {"protocolVersion": parameters["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "clock", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TIME_IN]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"12:00 in {parameters['arguments']['city']}"}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        found = result(asked["method"], asked.get("params", {}))
        told = {"error": {"code": -32601, "message": "not here"}} if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}), flush=True)

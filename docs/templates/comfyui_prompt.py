"""Start ComfyUI, run one workflow several times, each with another seed, and end it again.

Standard library only; run by the Python that ComfyUI runs with. Prints one JSON line a prompt, ``prompt_s``
being the seconds until ComfyUI had done it, and at last ``status``: ``success``, or what went wrong. Only the
ComfyUI that it started is measured: a port that answers before is refused, and proxies are not asked.
"""

import argparse
import http.client
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

#: Seconds that ComfyUI may take to start, and between two looks at a prompt.
START, LOOK = 600, 0.1
#: A proxy of the environment cannot reach this machine's own address.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url, data=None):
    """Call ComfyUI; ``None`` where it does not answer yet."""
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with DIRECT.open(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit("ComfyUI refuses: %s" % error.read().decode("utf-8", "replace")[:500])
    except (OSError, http.client.HTTPException):
        return None


def refuse_taken(port):
    """Stop where another program listens: its answers would be measured instead."""
    with socket.socket() as caller:
        caller.settimeout(5)
        if caller.connect_ex(("127.0.0.1", port)) == 0:
            sys.exit("another program answers on port %d; choose a free one with --port" % port)


def refuse_ended(comfy):
    """Stop where the ComfyUI that was started runs no more."""
    if comfy.poll() is not None:
        sys.exit("ComfyUI ended with exit code %d" % comfy.returncode)


def wait_until_ready(comfy, base):
    """Wait for the first answer, which must come from the ComfyUI that was started."""
    began = time.monotonic()
    while ask(base + "/system_stats") is None:
        refuse_ended(comfy)
        if time.monotonic() - began > START:
            sys.exit("ComfyUI did not answer within %d s" % START)
        time.sleep(LOOK)
    refuse_ended(comfy)


def other_seed(workflow, number):
    """Give every sampler another seed, since ComfyUI does not repeat what it has done."""
    for node in workflow.values():
        for name in ("seed", "noise_seed"):
            if isinstance(node.get("inputs", {}).get(name), int):
                node["inputs"][name] = 1000 + number
    return workflow


def run(comfy, base, workflow, number):
    """Run the workflow once; return what ComfyUI says of it, and the number of its images."""
    start = time.perf_counter()
    told = ask(base + "/prompt", {"prompt": other_seed(workflow, number)})
    if told is None:
        refuse_ended(comfy)
        sys.exit("ComfyUI did not take the prompt")
    while True:
        refuse_ended(comfy)
        entry = (ask(base + "/history/" + told["prompt_id"]) or {}).get(told["prompt_id"])
        if entry and entry.get("status", {}).get("status_str"):
            break
        time.sleep(LOOK)
    seconds = time.perf_counter() - start
    images = sum(len(output.get("images", [])) for output in entry["outputs"].values())
    print(json.dumps({"prompt_s": seconds, "images": images}), flush=True)
    return entry["status"]["status_str"], images


def main():
    """Start, run, judge, end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workflow", default="workflow_api.json")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--port", type=int, default=8199)
    parser.add_argument("--main", default="main.py", help="ComfyUI's own program")
    options = parser.parse_args()
    with open(options.workflow, encoding="utf-8") as file:
        workflow = json.load(file)
    base = "http://127.0.0.1:%d" % options.port
    words = [options.main, "--port", str(options.port), "--disable-auto-launch"]
    refuse_taken(options.port)
    comfy = subprocess.Popen([sys.executable, *words], stdout=sys.stderr)
    try:
        wait_until_ready(comfy, base)
        told = [run(comfy, base, workflow, number) for number in range(options.rounds)]
    finally:
        comfy.terminate()
        comfy.wait(60)
    failed = next((status for status, _ in told if status != "success"), "")
    empty = any(images == 0 for _, images in told)
    print(json.dumps({"status": failed or ("no image" if empty else "success")}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""examples.py PROJECT BIN: the examples for CI, containers and Spack are well-formed, name what exists, and what they run works:
the services of compose.yaml in namespaces as two containers would have, the action's last step and GitLab's script with programs
of perftest's. What only the services themselves could show (GitHub, GitLab, docker, Spack) is not looked at."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml here: scripts/setup test")
    sys.exit(77)

project, bin_dir = (os.path.realpath(a) for a in sys.argv[1:3])
os.environ["PATH"] = bin_dir + ":" + os.environ["PATH"]
failures = []


def check(fact, what):
    if not fact:
        failures.append(what)


def read(name):
    with open(os.path.join(project, name), encoding="utf-8") as file:
        return file.read()


def scripts_exist(name, text):
    """Each script of weft's that the text names is there and can be run."""
    found = re.findall(r"(?:scripts|examples/ci)/[a-z.-]+", text)
    check(found, f"{name} names no script")
    for script in found:
        check(os.access(os.path.join(project, script), os.X_OK), f"{name}: {script} cannot be run")


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, **more)
    check(done.returncode == 0, f"{command} ends with {done.returncode}: {done.stdout}")
    return done.stdout


def try_action(work):
    action = yaml.safe_load(read("action.yml"))
    check(action["runs"]["using"] == "composite", "action.yml is not composite")
    for step in action["runs"]["steps"]:
        check(step["shell"] == "bash" and step["run"], f"a step of action.yml without shell: {step}")
        run(["bash", "-n", "-c", step["run"]])
        for name in re.findall(r"inputs\.(\w+)", str(step)):
            check(name in action["inputs"], f"action.yml has no input {name}")
    scripts_exist("action.yml", read("action.yml"))
    server, client = "ib_send_bw -d weft0 -F -n 50", "ib_send_bw -d weft0 -F -n 50 127.0.0.1"
    faults = dict(os.environ, GITHUB_ACTION_PATH=project, SEED="7", SERVER=server, CLIENT=client)
    out = run(["bash", "-e", "-c", action["runs"]["steps"][-1]["run"]], cwd=work, env=faults)
    check(out.count("ok ") == 4, f"the action's last step says: {out}")

    workflow = yaml.safe_load(read("examples/ci/workflow.yml"))
    uses = [s for j in workflow["jobs"].values() for s in j["steps"] if s.get("uses") == "./weft"]
    check(len(uses) == 1 and set(uses[0]["with"]) <= set(action["inputs"]), "workflow.yml does not fit action.yml")

    gitlab = yaml.safe_load(read("examples/ci/gitlab-ci.yml"))["rdma-faults"]
    scripts_exist("gitlab-ci.yml", read("examples/ci/gitlab-ci.yml"))
    for line in gitlab["before_script"] + gitlab["script"]:
        run(["bash", "-n", "-c", line])
    os.symlink(project, os.path.join(work, "weft"))
    line = gitlab["script"][-1].replace("./my_server", server).replace("./my_client 127.0.0.1", client)
    out = run(["bash", "-e", "-c", line], cwd=work, env=faults)
    check(out.count("ok ") == 4, f"GitLab's script says: {out}")


def try_compose(work):
    text = read("examples/container/compose.yaml")
    compose = yaml.safe_load(text)
    server, client = compose["services"]["server"], compose["services"]["client"]
    build = os.path.normpath(os.path.join(project, "examples/container", server["build"]["context"]))
    check(build == project and os.path.exists(os.path.join(build, server["build"]["dockerfile"])), "compose.yaml builds nothing")
    for service in server, client:
        for volume in service["volumes"]:
            check(volume.split(":")[0] in compose["volumes"], f"compose.yaml has no volume {volume}")
    check(client["network_mode"] == "service:server" and "server" in client["depends_on"], "the client's server is not named")

    # A container: namespaces of its own but for the network, which these two share, and /weft for the volume.
    enter = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--mount-proc"]
    if subprocess.run(enter + ["true"], check=False, capture_output=True).returncode:
        print("part skipped: no user namespaces here: compose.yaml's services are not run")
        return
    volume = os.path.join(work, "volume")
    os.mkdir(volume)
    environment = dict(os.environ, WEFT_DIR=server["environment"]["WEFT_DIR"].replace("/weft", volume, 1), WEFT_IDLE_S="0.2")
    check(server["environment"] == client["environment"], "the services have two networks")
    serving = subprocess.Popen(enter + server["command"], env=environment, start_new_session=True)
    try:
        test = server["healthcheck"]["test"]
        check(test[0] == "CMD-SHELL", "the health of the server is not looked at by a shell")
        end = time.monotonic() + 60
        while subprocess.run(["sh", "-c", test[1]], env=environment, check=False, capture_output=True).returncode:
            if time.monotonic() > end:
                failures.append("the server of compose.yaml does not get healthy")
                return
            time.sleep(0.1)
        out = run(enter + client["command"], env=environment)
        check("ping data: rdma-ping-9" in out, f"the client of compose.yaml says: {out}")
    finally:
        os.killpg(serving.pid, signal.SIGKILL)
        serving.wait()
        subprocess.run(["weft", "down", "--force"], env=environment, check=False, capture_output=True)


def try_others():
    text = read("examples/container/Containerfile")
    scripts_exist("Containerfile", text)
    for line in re.findall(r"^RUN (.*(?:\\\n.*)*)", text, re.M):
        run(["sh", "-n", "-c", line.replace("\\\n", " ")])
    recipe = read("examples/spack/package.py")
    compile(recipe, "package.py", "exec")
    for option in re.findall(r'define\w*\("(\w+)"', recipe):
        check(f"option({option} " in read("CMakeLists.txt"), f"package.py: CMake has no option {option}")


for program in "ib_send_bw", "rping", "unshare", "ip":
    if not shutil.which(program):
        print(f"skipped: no {program} here")
        sys.exit(77)
# in a network namespace of its own, as perftest's port is fixed
if "WEFT_APART" not in os.environ:
    if subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode:
        print("skipped: no network namespace can be made")
        sys.exit(77)
    os.environ["WEFT_APART"] = "1"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, "-B", *sys.argv])
run(["ip", "link", "set", "lo", "up"])
work_dir = tempfile.mkdtemp(prefix="weft-examples.")
try:
    try_others()
    try_action(work_dir)
    try_compose(work_dir)
finally:
    shutil.rmtree(work_dir)
for failure in failures:
    print("FAILED:", failure)
sys.exit(bool(failures))

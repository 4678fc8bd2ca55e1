# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine: network namespaces on a bridge, each with an address and a name of its own, joined by
links of a bandwidth that tc sets. The processes know no more of it than of real hosts."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mpi"))
from mpi_case import BIN, ENVIRONMENT, IS_MPICH, MPIRUN, MpiCase, run  # noqa: E402

AGENT = HERE / "agent.sh"
SUBNET = "10.77.0"
BRIDGE = f"rm{os.getpid()}"  # of this run's own: several may go on at once
PREFIX = f"{BRIDGE}-"
ENVIRONMENT["RINGMARK_HOSTS"] = PREFIX


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """`number` of them, until it is closed. The links carry `rate` bits per second each way."""

    def __init__(self, number, rate):
        self.number = number
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        for host in range(1, number + 1):
            space = f"{PREFIX}{host}"
            ip("netns", "add", space)
            ip("link", "add", f"{PREFIX}{host}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", f"{PREFIX}{host}", "master", BRIDGE, "up")
            for words in (["addr", "add", f"{SUBNET}.{host}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                          ["link", "set", "lo", "up"]):  # fmt: skip
                ip("-n", space, *words)
            limit = ["root", "tbf", "rate", str(rate), "burst", "128kb", "latency", "50ms"]
            subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", "eth0", *limit], check=True)

    def cut_off(self, host):
        ip("link", "set", f"{PREFIX}{host}", "down")

    def processes(self, name=""):
        """Those that run there, under that name."""
        found = []
        for host in range(1, self.number + 1):
            done = subprocess.run(["ip", "netns", "pids", f"{PREFIX}{host}"], check=False, capture_output=True, text=True)
            for process in map(int, done.stdout.split()):
                try:
                    if pathlib.Path(f"/proc/{process}/comm").read_text().strip().startswith(name[:15]):
                        found.append(process)
                except OSError:  # it has ended meanwhile
                    pass
        return found

    def close(self):
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for host in range(1, self.number + 1):
            subprocess.run(["ip", "netns", "del", f"{PREFIX}{host}"], check=False, capture_output=True)
            subprocess.run(["ip", "link", "del", f"{PREFIX}{host}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)

    def command(self, program, *options):
        """A process on each of them."""
        addresses = [f"{SUBNET}.{host}" for host in range(1, self.number + 1)]
        network = f"{SUBNET}.0/24"
        how = ["-H", ",".join(f"{address}:1" for address in addresses), "--mca", "plm_rsh_agent", AGENT,
               "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include",
               network, "--bind-to", "none"]  # fmt: skip
        words = [MPIRUN, "-n", self.number, *how, BIN / program, *options]
        return [AGENT, addresses[0], *map(str, words)]


def why_not():
    if IS_MPICH:
        return "started by Open MPI's mpirun only"
    try:
        hosts = Hosts(1, 10**9)
    except (OSError, subprocess.CalledProcessError) as error:
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)
        return f"this machine makes no network namespaces for us: {getattr(error, 'stderr', '') or error}"
    hosts.close()
    return None


@unittest.skipIf(reason := why_not(), reason)
class SeveralHosts(MpiCase):
    def hosts(self, number, rate=10**9):
        hosts = Hosts(number, rate)
        self.addCleanup(hosts.close)
        return hosts

    def rows(self, hosts, *options):
        command = hosts.command("bench_allreduce", "--quiet", f"--output={self.output}", *options)
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.valid_report()

    def test_every_engine_is_exact_across_hosts(self):
        for number in (2, 4):
            with self.subTest(number):
                hosts = self.hosts(number)
                report = self.rows(hosts, "--engine=mpi,mpi_native,gloo", "--algorithm=ring,halving_doubling,leader",
                                   "--bytes=4,64K", "--iterations=2")  # fmt: skip
                refused = [row for row in report["results"] if row["status"] == "refused"]  # without libgloo-dev
                self.assertEqual({row["point"]["engine"] for row in refused} - {"gloo"}, set())
                self.assertEqual({(row["status"], row["check"]) for row in report["results"] if row not in refused},
                                 {("ok", "exact")})
                self.assertEqual(report["run"]["world"]["hosts"], [f"host{host}" for host in range(number)])
                self.assertEqual([one["host"] for one in report["run"]["world"]["rank_map"]],
                                 [f"host{host}" for host in range(number)])
                hosts.close()

    def test_a_host_that_is_cut_off_ends_the_job_and_is_named(self):
        hosts = self.hosts(2)
        command = hosts.command("bench_allreduce", "--engine=mpi", "--algorithm=ring", "--bytes=64K",
                                "--iterations=100000000", "--timeout=4s", f"--output={self.output}")  # fmt: skip
        with self.started(command) as job:
            hosts.cut_off(2)
            begin = time.monotonic()
            while hosts.processes("bench_allreduce") and time.monotonic() < begin + 60:
                time.sleep(0.1)
            self.assertLess(time.monotonic() - begin, 40)
            # Ours have ended, on both sides. Open MPI's daemon over there still waits for mpirun, and that for it.
            job.kill()
            hosts.close()
            said = job.communicate(timeout=60)[1]
        report = self.valid_report()
        self.assertFalse(report["run"]["complete"])
        (row,) = report["results"]
        self.assertEqual(row["status"], "timed_out")
        self.assertIn("rank 1 on host1 is silent", row["reason"])
        self.assertIn("65536 bytes of f32", row["reason"])
        self.assertIn(row["reason"], said)


if __name__ == "__main__":
    unittest.main()

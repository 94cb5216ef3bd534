"""Hostile scripts as data: what each tries, what it finds in the sandbox, and whether it may be tried without one.

A script prints ``escaped`` once it has what it wants. It is handed the bait that `world` lays out, as ``world``; what it raises is
printed by name and text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hostile.system_calls import CALL, FAMILIES, REFUSED, REFUSED_ANYWAY, SOCKET


class Free(StrEnum):
    """Whether a script is also run without the sandbox, where it must then escape."""

    ANYONE = "as anyone"
    ROOT = "as root"
    KERNEL = "as the kernel allows"
    """It is run; what comes of it depends on the machine."""
    NEVER = "no"
    """It would harm the machine."""


@dataclass(frozen=True)
class Case:
    """A hostile script."""

    name: str
    group: str
    script: str
    held: str
    """A regular expression for what comes of it in the sandbox."""
    free: Free = Free.ANYONE
    leaves: str = ""
    """The name of a bait: where a file is found once the script is over, that is the escape. In the sandbox it may write to its own."""

    @property
    def finds(self) -> str:
        """``held``, for a reader."""
        words = self.held.replace("\\", "").split("|")
        return " or ".join(f"`{word}`" for word in words)


_GONE = "FileNotFoundError|Permission"
_READ_ONLY = "Read-only file system|FileNotFoundError|PermissionError"


def _read(name: str, path: str, held: str = "FileNotFoundError", free: Free = Free.ANYONE) -> Case:
    script = f"if b'hunter2' in open({path}, 'rb').read():\n    print('escaped')"
    return Case(name, "files", script, held, free)


def _write(name: str, path: str) -> Case:
    return Case(name, "files", f"open({path}, 'w').write('owned')\nprint('escaped')", _READ_ONLY, Free.NEVER)


FILES = [
    _read("a key in the home of the owner", "world.secret_at_home"),
    _read("the script of another job", "world.other_job"),
    _read("a database of the service", "world.database"),
    _read("the same through a symbolic link", "os.symlink(world.database, 'link') or 'link'"),
    _read("the same through a hard link", "os.link(world.database, 'hard') or 'hard'"),
    _read("the same below /proc/PID/root", "f'/proc/{world.bystander}/root{world.database}'"),
    _read("the same by a descriptor of its owner", "f'/proc/{world.bystander}/fd/0'"),
    _read("the environment of another process", "f'/proc/{world.bystander}/environ'"),
    _read("the command line of another process", "f'/proc/{world.named}/cmdline'"),
    _read("memory that processes of the machine share", "world.shared_memory"),
    _read("a file in the machine's /tmp", "world.in_tmp"),
    Case("password hashes", "files", "if open('/etc/shadow').read():\n    print('escaped')", "FileNotFoundError", Free.ROOT),
    Case(
        "the users of the machine", "files",
        "import pwd\nif len(pwd.getpwall()) > 1:\n    print('escaped')\nprint([user.pw_name for user in pwd.getpwall()])",
        r"\['sandbox'\]",
    ),
    Case("the disk itself", "files", "open(world.disk, 'rb').read(512)\nprint('escaped')", _GONE, Free.KERNEL),
    Case("the memory of the machine", "files", "open('/dev/mem', 'rb').read(1)\nprint('escaped')", _GONE, Free.KERNEL),
    Case(
        "a device made anew", "files",
        "import stat\nos.mknod('null', stat.S_IFCHR | 0o600, os.makedev(1, 3))\nopen('null', 'w').write('x')\nprint('escaped')",
        "PermissionError", Free.ROOT,
    ),
    Case(
        "a path with two dots out of its folder", "files",
        "if b'hunter2' in open(os.path.relpath(world.database, os.getcwd()), 'rb').read():\n    print('escaped')",
        "FileNotFoundError",
    ),
    Case("a file beside its own folder", "files", "open(world.outside, 'w').write('owned')\nprint('wrote')", "wrote", leaves="outside"),
    _write("the system's programs", "'/usr/bin/minimizer-hostile'"),
    _write("the system's settings", "'/etc/minimizer-hostile'"),
    _write("a module for every later Python", "os.path.join(os.path.dirname(os.__file__), 'sitecustomize.py')"),
    _write("a line that every later Python runs", "os.path.join(__import__('sysconfig').get_path('purelib'), 'hostile.pth')"),
    Case(
        "the program that the kernel starts at a crash", "files",
        "os.close(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY))\nprint('escaped')", "Read-only file system", Free.ROOT,
    ),
    Case("keys for the kernel", "files", "os.close(os.open('/proc/sysrq-trigger', os.O_WRONLY))\nprint('escaped')", _READ_ONLY, Free.KERNEL),
    Case(
        "a file in memory that processes of the machine share", "files",
        "open(world.in_shm, 'w').write('owned')\nprint('wrote')", "wrote", leaves="in_shm",
    ),
]  # fmt: skip
NETWORK = [
    Case("a service on loopback", "network", "import socket\nsocket.create_connection(('127.0.0.1', world.tcp), 10)\nprint('escaped')", "ConnectionRefusedError"),
    Case("the same by IPv6", "network", "import socket\nsocket.create_connection(('::1', world.tcp6), 10)\nprint('escaped')", "ConnectionRefusedError|Cannot assign|unreachable", Free.KERNEL),
    Case(
        "a message by UDP", "network",
        "import socket\nudp = socket.socket(type=socket.SOCK_DGRAM)\nudp.settimeout(2)\nudp.connect(('127.0.0.1', world.udp))\nudp.send(b'x')\nudp.recv(9)\nprint('escaped')",
        "ConnectionRefusedError",
    ),
    Case("an abstract socket", "network", "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0' + world.name)\nprint('escaped')", "ConnectionRefusedError"),
    Case("a socket in the file system", "network", "import socket\nsocket.socket(socket.AF_UNIX).connect(world.socket)\nprint('escaped')", "FileNotFoundError"),
    Case("the metadata of a cloud", "network", "import socket\nsocket.create_connection(('169.254.169.254', 80), 1)\nprint('escaped')", "unreachable", Free.NEVER),
    Case("raw packets", "network", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nprint('escaped')", "PermissionError", Free.ROOT),
    Case("another interface", "network", "import socket\nif len(socket.if_nameindex()) > 1:\n    print('escaped')\nprint(socket.if_nameindex())", r"\[\(1, 'lo'\)\]", Free.KERNEL),
]  # fmt: skip
PROCESSES = [
    Case("a signal to another process", "processes", "os.kill(world.bystander, 0)\nprint('escaped')", "ProcessLookupError"),
    Case("its memory by process_vm_readv", "processes", """
import ctypes
class Vec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
address = int(open(f"/proc/{world.bystander}/maps").readline().split("-")[0], 16)
buffer = ctypes.create_string_buffer(8)
local, remote = Vec(ctypes.addressof(buffer), 8), Vec(address, 8)
libc = ctypes.CDLL(None, use_errno=True)
if libc.process_vm_readv(world.bystander, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) == 8:
    print("escaped")
""", "FileNotFoundError", Free.KERNEL),
    Case("its memory by /proc/PID/mem", "processes", """
address = int(open(f"/proc/{world.bystander}/maps").readline().split("-")[0], 16)
with open(f"/proc/{world.bystander}/mem", "rb", 0) as memory:
    memory.seek(address)
    if memory.read(8):
        print("escaped")
""", "FileNotFoundError", Free.KERNEL),
    Case("a descriptor of another process", "processes", "os.pidfd_open(world.bystander)\nprint('escaped')", "ProcessLookupError"),
    Case("its priority", "processes", "os.setpriority(os.PRIO_PROCESS, world.bystander, 19)\nprint('escaped')", "ProcessLookupError"),
    Case("how many processes there are", "processes", "seen = [name for name in os.listdir('/proc') if name.isdigit()]\nif len(seen) > 5:\n    print('escaped')\nprint(len(seen) <= 5)", "True"),
    Case("System V memory of another", "processes", """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.shmget(world.key, 0, 0) >= 0:
    print("escaped")
else:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
""", "Function not implemented|FileNotFoundError"),
    Case("a process that outlives the job", "processes", """
import time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        time.sleep(1)
        open(world.survived, "w").close()
    os._exit(0)
os.wait()
print("let go")
""", "let go", leaves="survived"),
    Case("descriptors of the worker", "processes", "seen = [int(fd) for fd in os.listdir('/proc/self/fd')]\nprint(sorted(seen)[:3], len(seen) <= 4)", r"\[0, 1, 2\] True", Free.NEVER),
    Case("the terminal's input", "processes", "import fcntl, termios\nfcntl.ioctl(os.open('/dev/tty', os.O_RDWR), termios.TIOCSTI, b'x')\nprint('escaped')", "No such device|FileNotFound|Permission", Free.NEVER),
]  # fmt: skip
PRIVILEGES = [
    Case("capabilities", "privileges", "held = [line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')]\nif any(int(each, 16) for each in held):\n    print('escaped')\nprint(set(held))", "{'0000000000000000'}", Free.KERNEL),
    Case("a root of its own", "privileges", "os.chroot('.')\nprint('escaped')", "PermissionError", Free.ROOT),
    Case("a user namespace", "privileges", "import subprocess\nif subprocess.run(['unshare', '-Ur', 'true']).returncode == 0:\n    print('escaped')", "unshare failed", Free.KERNEL),
    Case("another user", "privileges", "os.setuid(os.getuid() + 1)\nprint('escaped')", "PermissionError|Invalid argument", Free.ROOT),
    Case("another name for the machine", "privileges", "import socket\nsocket.sethostname('owned')\nprint('escaped')", "PermissionError", Free.NEVER),
    Case("another time", "privileges", "import time\ntime.clock_settime(time.CLOCK_REALTIME, time.time())\nprint('escaped')", "PermissionError", Free.NEVER),
    Case("the namespaces of another process", "privileges", "import ctypes\nfd = os.open(f'/proc/{world.bystander}/ns/net', os.O_RDONLY)\nif ctypes.CDLL(None).setns(fd, 0) == 0:\n    print('escaped')", "FileNotFoundError", Free.ROOT),
    Case("a variable of the worker's environment", "privileges", "if 'hunter2' in os.environ.values():\n    print('escaped')\nprint(sorted(set(os.environ) - {'PWD', 'LC_CTYPE'}))", r"\['PATH'\]", Free.NEVER),
]  # fmt: skip
_FILES_IN = """
held = []
for number in range(20):
    held.append(open(f"{}/{{world.name}}-{{number}}", "wb", 0))
    os.unlink(held[-1].name)
    held[-1].write(bytes(16 << 20))
"""
_TAKE = {
    "memory by several processes": "import signal\nfor _ in range(4):\n    if os.fork() == 0:\n        block = bytearray(80 << 20)\n        os.write(1, b'.')\n        signal.pause()\nimport time\ntime.sleep(1)",
    "memory as files without a name": "for number in range(20):\n    os.write(os.memfd_create(str(number)), bytes(16 << 20))",
    "memory that is mapped": "import mmap\nmemory = mmap.mmap(-1, 320 << 20)\nfor at in range(0, 320 << 20, 4096):\n    memory[at] = 1",
    "memory as files of /dev/shm": _FILES_IN.format("/dev/shm"),
    "memory as files of /tmp": _FILES_IN.format("/tmp"),
}  # fmt: skip
RESOURCES = [
    *(
        Case(name, "resources", f"{script}\nprint('escaped', flush=True)\ninput()", "MemoryExceeded")
        for name, script in _TAKE.items()
    ),
    Case("memory in one block", "resources", "block = bytearray(1 << 30)\nprint('escaped')", "MemoryError|MemoryExceeded", Free.ANYONE),
    Case("a hundred processes", "resources", """
import signal
for _ in range(100):
    if os.fork() == 0:
        signal.pause()
print("escaped")
""", "BlockingIOError"),
    Case("a file past its bound", "resources", "with open('big', 'wb') as file:\n    for _ in range(1025):\n        file.write(bytes(1 << 16))\nprint('escaped')", "File too large"),
    Case("disk that is allocated, and not written", "resources", "import ctypes\nfd = os.open('big', os.O_CREAT | os.O_RDWR)\nlibc = ctypes.CDLL(None, use_errno=True)\nif libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(1 << 20)) == 0:\n    print('escaped')\nelse:\n    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))", "not supported"),
    Case("the same by ioctl", "resources", """
import fcntl, struct
refused = set()
for number in (40, 42, 57):  # FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE
    try:
        with open("big", "wb") as file:
            fcntl.ioctl(file, 0x40305800 | number, struct.pack("hhqqiI4i", 0, 0, 0, 1 << 20, 0, 0, 0, 0, 0, 0))
        print("escaped")
    except OSError as error:
        refused.add(error.strerror)
print(refused)
""", r"\{'Operation not supported'\}"),
    Case("higher limits", "resources", "import resource\nsoft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\nresource.setrlimit(resource.RLIMIT_FSIZE, (hard * 2, hard * 2))\nprint('escaped')", "not allowed|ValueError", Free.NEVER),
    Case("a core file", "resources", "import resource\nprint(resource.getrlimit(resource.RLIMIT_CORE))", r"\(0, 0\)", Free.NEVER),
    Case("a higher priority", "resources", "os.nice(-5)\nprint('escaped')", "PermissionError", Free.ROOT),
    Case("a schedule in real time", "resources", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nprint('escaped')", "PermissionError", Free.KERNEL),
]  # fmt: skip


def _call(name: str) -> Case:
    """A system call that the filter refuses with an error of its own."""
    arguments, error = REFUSED[name]
    script = f"number = world.calls[{name!r}]\nsys.argv[1:] = map(str, (number, *{arguments!r}))\n{_flat(CALL)}"
    script += (
        f"\nif made >= 0 or errno.errorcode[ctypes.get_errno()] not in ({error!r}, 'ENOSYS'):\n    print('escaped')"
    )
    return Case(
        f"the system call {name}", "kernel", script, error, Free.KERNEL if name in REFUSED_ANYWAY else Free.ANYONE
    )


def _family(name: str) -> Case:
    script = f"sys.argv[1:] = map(str, {FAMILIES[name]!r})\n{_flat(SOCKET)}"
    script = script.replace('print("made")', 'print("escaped")')
    return Case(f"a socket of the family {name}", "kernel", script, "EAFNOSUPPORT", Free.KERNEL)


def _flat(text: str) -> str:
    return "\n".join(line[4:] if line.startswith("    ") else line for line in text.strip("\n").splitlines())


KERNEL = [
    *map(_call, REFUSED),
    *map(_family, FAMILIES),
    Case("a key that its owner's session holds", "kernel", "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfound = libc.syscall(world.calls['request_key'], b'user', world.name.encode(), None, 0)\nif found > 0:\n    print('escaped')\nelse:\n    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))", "PermissionError", Free.KERNEL),
]  # fmt: skip
CASES = [*FILES, *NETWORK, *PROCESSES, *PRIVILEGES, *RESOURCES, *KERNEL]

"""A filter of system calls: what follows it makes no namespace, mount or key, and traces nobody.

A process that may do these in a namespace of its own reaches parts of the kernel that few others
use, where most of its faults are found.
"""

import os
import struct

from outrider.processes.kernel import checked, gain_nothing
from outrider.processes.reaping import libc

_PR_SET_SECCOMP, _FILTER = 22, 2
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _IS, _IS_AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Where in the data of a call: its number, the machine's kind, and its arguments."""
_CLONE3, _X32 = 435, 0x40000000
_NEW_NAMESPACES = 0x7E020000
_TERMINAL_INPUT = (0x5412, 0x541C)
"""`TIOCSTI` and `TIOCLINUX`, which type into a terminal."""
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6 and netlink sockets: others leave the network namespace, or few ever need."""
# The name of each refused call, with its number on x86-64 and on 64-bit ARM.
_REFUSED = """
acct 163 89 · add_key 248 217 · bpf 321 280 · chroot 161 51 · clock_adjtime 305 266
clock_settime 227 112 · delete_module 176 106 · finit_module 313 273 · fsconfig 431 431
fsmount 432 432 · fsopen 430 430 · fspick 433 433 · init_module 175 105 · io_uring_enter 426 426
io_uring_register 427 427 · io_uring_setup 425 425 · kexec_file_load 320 294 · kexec_load 246 104
keyctl 250 219 · mount 165 40 · mount_setattr 442 442 · move_mount 429 429
open_by_handle_at 304 265 · open_tree 428 428 · perf_event_open 298 241 · pidfd_getfd 438 438
pivot_root 155 41 · process_vm_readv 310 270
process_vm_writev 311 271 · ptrace 101 117 · quotactl 179 60 · quotactl_fd 443 443 · reboot 169 142
request_key 249 218 · setns 308 268 · settimeofday 164 170 · swapoff 168 225 · swapon 167 224
syslog 103 116 · umount2 166 39 · unshare 272 97 · userfaultfd 323 282 · vhangup 153 58
"""
# By the machine's name: its kind, which column above, and its `clone`, `ioctl` and `socket`.
_MACHINES = {
    "x86_64": (0xC000003E, 1, (56, 16, 41)),
    "aarch64": (0xC00000B7, 2, (220, 29, 198)),
}


def restrict() -> None:
    """Refuse such calls to this process and all below it; raises `OSError`."""
    from ctypes import addressof, c_char_p, create_string_buffer

    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(f"the system calls of {machine} aren't known")
    rules = _program(*_MACHINES[machine])
    code = create_string_buffer(b"".join(rules))
    program = struct.pack("HxxxxxxP", len(rules), addressof(code))
    gain_nothing()
    checked(libc().prctl(_PR_SET_SECCOMP, _FILTER, c_char_p(program), 0, 0))


def _program(kind: int, column: int, others: tuple[int, int, int]) -> list[bytes]:
    """Return the filter, an instruction each."""
    refused = [int(row.split()[column]) for row in _REFUSED.replace("\n", "·").split("·") if row]
    clone, ioctl, socket = others
    return [
        _load(_ARCHITECTURE),
        *_when(_IS, kind, [], otherwise=[_return(_KILL)]),
        _load(_NUMBER),
        *_when(_IS_AT_LEAST, _X32, [_return(_REFUSE | _EPERM)]),
        *_when(_IS, _CLONE3, [_return(_REFUSE | _ENOSYS)]),  # its flags can't be read: use clone
        *(part for one in refused for part in _when(_IS, one, [_return(_REFUSE | _EPERM)])),
        *_when(_IS, clone, _refuse_argument(_FIRST, _HAS_BIT, (_NEW_NAMESPACES,), _EPERM)),
        *_when(_IS, ioctl, _refuse_argument(_SECOND, _IS, _TERMINAL_INPUT, _EPERM)),
        *_when(_IS, socket, _allow_argument(_FIRST, _FAMILIES, _EAFNOSUPPORT)),
        _return(_ALLOW),
    ]


def _load(place: int) -> bytes:
    return struct.pack("HBBI", _LOAD, 0, 0, place)


def _return(value: int) -> bytes:
    return struct.pack("HBBI", _RETURN, 0, 0, value)


def _when(
    test: int, value: int, then: list[bytes], otherwise: list[bytes] | None = None
) -> list[bytes]:
    """Return a test of what was loaded last, and what follows where it holds, or doesn't."""
    otherwise = otherwise or []
    if then:
        assert not otherwise, "one of them goes on behind the test"
        return [struct.pack("HBBI", test, 0, len(then), value), *then]
    return [struct.pack("HBBI", test, len(otherwise), 0, value), *otherwise]


def _refuse_argument(place: int, test: int, values: tuple[int, ...], error: int) -> list[bytes]:
    """Return what refuses a call whose argument is one of these, and allows all others."""
    tests = (part for one in values for part in _when(test, one, [_return(_REFUSE | error)]))
    return [_load(place), *tests, _return(_ALLOW)]


def _allow_argument(place: int, values: tuple[int, ...], error: int) -> list[bytes]:
    tests = (part for one in values for part in _when(_IS, one, [_return(_ALLOW)]))
    return [_load(place), *tests, _return(_REFUSE | error)]

#!/usr/bin/env python3
"""umad_pairs.py OURS [STOCK]: which devices libibumad pairs for a port's SMI and GSI, from a tree of /sys that this test makes
in a mount namespace: adapters with one port and two, one that is down, one without an SMI, and a planar port, whose two halves
show one port GUID. A stock library that has these calls (rdma-core 53 and later) says the same, but for a port that is down and
whose device is named: releases up to 56 refuse it, and so its tools cannot tell why it is down.
"""

import ctypes
import os
import subprocess
import sys
import tempfile

NAME = 20
ACTIVE, DOWN = "4: ACTIVE", "1: DOWN"
SM, NO_SM = 0x02500848, 0x02500C48		# capabilities without and with IsSMdisabled
# device: ports of state, capabilities, port GUID
DEVICES = {
    "alone0": [(ACTIVE, SM, 0x11)],
    "down0": [(DOWN, SM, 0x21)],
    "mute0": [(ACTIVE, NO_SM, 0x31)],
    "planar_a": [(ACTIVE, NO_SM, 0x41)],
    "planar_b": [(ACTIVE, SM, 0x41)],
    "two0": [(DOWN, SM, 0x51), (ACTIVE, SM, 0x52)],
}
PAIRS = [("alone0", "alone0"), ("down0", "down0"), ("", "mute0"), ("planar_b", "planar_a"), ("two0", "two0")]
# name, port, with an SMI alone: result, SMI and its port, GSI and its port
BY_NAME = {
    (None, 0, 0): (0, "alone0", 1, "alone0", 1),
    (None, 0, 1): (0, "alone0", 1, "alone0", 1),
    ("alone0", 1, 1): (0, "alone0", 1, "alone0", 1),
    ("alone0", 2, 0): None,
    ("down0", 0, 1): (0, "down0", 1, "down0", 1),
    ("mute0", 0, 0): (0, "", 0, "mute0", 1),
    ("mute0", 1, 1): None,
    ("planar_a", 0, 1): (0, "planar_b", 1, "planar_a", 1),
    ("planar_b", 1, 1): (0, "planar_b", 1, "planar_a", 1),
    ("two0", 0, 1): (0, "two0", 2, "two0", 2),
    ("two0", 1, 1): (0, "two0", 1, "two0", 1),
    ("nobody0", 0, 0): None,
}
DOWN_AND_NAMED = {("down0", 0, 1), ("two0", 1, 1)}
ENODEV, EIO = 19, 5


class Pair(ctypes.Structure):
    _fields_ = [("smi", ctypes.c_char * NAME), ("smi_port", ctypes.c_uint32), ("gsi", ctypes.c_char * NAME),
                ("gsi_port", ctypes.c_uint32)]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text + "\n")


def make_tree(root):
    for name, ports in DEVICES.items():
        device = f"{root}/infiniband/{name}"
        for file, text in (("node_type", "1: CA"), ("node_guid", "0000:0000:0000:0001"), ("fw_ver", "1"), ("hw_rev", "0"),
                           ("hca_type", "none"), ("sys_image_guid", "0000:0000:0000:0001"), ("board_id", "none")):
            write(f"{device}/{file}", text)
        for number, (state, capabilities, guid) in enumerate(ports, 1):
            for file, text in (("state", state), ("phys_state", "5: LinkUp" if state == ACTIVE else "2: Polling"), ("lid", "0x1"),
                               ("lid_mask_count", "0"), ("sm_lid", "0x1"), ("sm_sl", "0"), ("rate", "40 Gb/sec (4X QDR)"),
                               ("cap_mask", f"0x{capabilities:08x}"), ("link_layer", "InfiniBand"), ("pkeys/0", "0xffff"),
                               ("gids/0", f"fe80:0000:0000:0000:0000:0000:0000:{guid:04x}")):
                write(f"{device}/ports/{number}/{file}", text)


def answers(file):
    """What a library says of the tree, in a form to compare; None if it does not have the calls."""
    library = ctypes.CDLL(file)
    if not hasattr(library, "umad_get_smi_gsi_pairs"):
        return None
    pairs = (Pair * 32)()
    n = library.umad_get_smi_gsi_pairs(pairs, ctypes.c_size_t(32))
    said = [sorted((p.smi.decode(), p.gsi.decode()) for p in pairs[:n])]
    few = library.umad_get_smi_gsi_pairs(pairs, ctypes.c_size_t(2))
    said.append(few)
    for (name, port, enforce), _ in BY_NAME.items():
        pair = Pair()
        status = library.umad_get_smi_gsi_pair_by_ca_name(name and name.encode(), ctypes.c_uint8(port), ctypes.byref(pair),
                                                          enforce)
        said.append((status, pair.smi.decode(), pair.smi_port, pair.gsi.decode(), pair.gsi_port) if status == 0 else status)
    return said


def main():
    ours, stock = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    if os.environ.get("UMAD_PAIRS_TREE") is None:
        with tempfile.TemporaryDirectory() as tree:
            make_tree(tree)
            enter = ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" /sys/class && exec "$@"', tree]
            if subprocess.run([*enter, "true"], capture_output=True).returncode:
                print("SKIP: no mount namespaces for this user here")
                return 77
            env = {**os.environ, "UMAD_PAIRS_TREE": tree}
            return subprocess.run([*enter, sys.executable, "-B", *sys.argv], env=env).returncode
    expected = [sorted(PAIRS), 2, *(e or -ENODEV for e in BY_NAME.values())]
    said = answers(ours)
    for a, b in zip(said, expected):
        assert a == b, f"ours says {a}, expected is {b}"
    assert len(said) == len(expected)
    # a port without an SMI is not there for who wants one; else there is nobody to open it
    opened = [ctypes.CDLL(ours)[name](b"mute0", 0) for name in ("umad_open_smi_port", "umad_open_port")]
    assert opened == [-ENODEV, -EIO], opened
    there = answers(stock) if stock else None
    if there is None:
        print("part skipped: the stock library is older than these calls")
    else:
        for a, b, asked in zip(said, there, ["pairs", "two pairs", *BY_NAME]):
            refused = asked in DOWN_AND_NAMED and b == -ENODEV
            assert a == b or refused, f"{asked}: ours says {a}, the stock library {b}"
    return 0


sys.exit(main())

"""A program that records where the processes of its network namespace try to connect to.

It stands in for everything outside: a tun device that has the default route, so that each packet to another
address comes here and nowhere else, and is never answered. What goes over the loopback interface is seen, too.
One line for each new TCP connection or UDP datagram: ``tcp 192.0.2.1 443``. Run it as root in the namespace;
it says ``ready`` and ends when its standard input does.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

_TUNSETIFF = 0x400454CA  # linux/if_tun.h
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_ETH_P_ALL = 0x0003
_TCP, _UDP = 6, 17
_SYN, _ACK = 0x02, 0x10
_ETHERNET = 14


def attempt(packet: bytes) -> str | None:
    """Where the IP ``packet`` opens a TCP connection to, or sends a datagram; None for any other."""
    if not packet:
        return None
    if packet[0] >> 4 == 4:
        header, protocol, address = (packet[0] & 15) * 4, packet[9], packet[16:20]
    elif packet[0] >> 4 == 6:
        header, protocol, address = 40, packet[6], packet[24:40]
    else:
        return None
    payload = packet[header:]
    if protocol == _TCP and len(payload) > 13 and payload[13] & (_SYN | _ACK) == _SYN:
        name = "tcp"
    elif protocol == _UDP and len(payload) >= 4:
        name = "udp"
    else:
        return None
    (port,) = struct.unpack_from("!H", payload, 2)
    return f"{name} {ip_address(address)} {port}"


def main(output: Path) -> None:
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", b"outside", _IFF_TUN | _IFF_NO_PI))
    for command in (
        "link set lo up",
        "link set outside up",
        "address add 192.0.2.2/24 dev outside",
        "route add default dev outside",
        "-6 address add 2001:db8::2/64 dev outside nodad",
        "-6 route add default dev outside",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    loopback = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    loopback.bind(("lo", _ETH_P_ALL))
    print("ready", flush=True)
    with output.open("a", encoding="ascii", buffering=1) as out:
        while True:
            for source in select.select([tun, loopback, sys.stdin], [], [])[0]:
                if source is sys.stdin:
                    return
                if source is loopback:
                    data, address = loopback.recvfrom(65536)
                    # Each packet is seen twice: when it is sent and when it comes.
                    found = attempt(data[_ETHERNET:]) if address[2] == socket.PACKET_OUTGOING else None
                else:
                    found = attempt(os.read(tun, 65536))
                if found is not None:
                    out.write(found + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

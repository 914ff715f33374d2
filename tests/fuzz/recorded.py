"""Files that the parsers of both components read: recordings, plain and packed, and logs of nvidia-smi."""

from __future__ import annotations

import gzip

RECORDING = (
    b"t,node,gpu,gpu_uuid,model,workload,scheduler,user,account,utilization_ratio,memory_used_bytes,memory_total_bytes,"
    b"power_watts,processes,io_pressure_ratio,idle_gap_lt2_ratio,idle_gap_2to30_ratio\n"
    b"1700000010,n1,0,GPU-a,NVIDIA H200,slurm/7,slurm,ada,physics,0.5,1e9,1.5e11,300.5,1,0.01,0.25,0\n"
    b"1700000020,n1,0,GPU-a,NVIDIA H200,slurm/7,slurm,ada,physics,,,,,,,,\n"
    b"1700000030,n1,0,GPU-a,NVIDIA H200,slurm/7,slurm,ada,physics,1,0,1.5e11,699,2,0,0,0\n"
    b'1700000030,n1,1,GPU-b,"NVIDIA ""H200""",,,,,0,0,1.5e11,70,0,0,0,0\n'
)
SMALL = b"\xef\xbb\xbft,node,gpu,utilization_ratio\r\n1700000010,n1,0,0.5\r\n1700000020,n1,0,0.25\r\n"
BOMB = gzip.compress(b"t,node,gpu,utilization_ratio\n" + b"\0" * (48 << 20), 9, mtime=0)
"""48 MiB in a line without end, in 47 kB."""
LINES = gzip.compress(b"t,node,gpu,utilization_ratio\n" + b"x\n" * (1 << 17), 9, mtime=0)

CELLS = (
    *(b"1700000040,n1,0,GPU-a,,,,,,0.5,,,,,,,\n", b"t,node,gpu,utilization_ratio\n", b"\n\n", b'"', b'""', b'"a\nb"'),
    *(b"utilization_ratio", b"utilisation_ratio", b"gpu_uuid", b"t,", b"1.0000001", b"1e308", b"8589934592", b"4097"),
)

SMI = (
    b"timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n"
    b"2023/03/14 07:52:06.453, 0, GPU-a, NVIDIA H200, 82 %, 5959 MiB, 143771 MiB, 312.55 W\n"
    b"2023/03/14 07:52:06.455, 1, GPU-b, NVIDIA H200, 0 %, 0 MiB, 143771 MiB, [N/A]\n"
    b"2023/03/14 07:52:11.453, 0, GPU-a, NVIDIA H200, 100 %, 5959 MiB, 143771 MiB, 699.00 W\n"
)
SMI_BARE = (
    b"timestamp, utilization.gpu [%], memory.used [KiB], name, memory.used [KiB]\r\n"
    b"2023/10/29 02:30:00.000, 5, 1024, NVIDIA T4, 1024\r\n2023/10/29 02:30:05.000, 10, 1024, NVIDIA T4, 1024\r\n"
)
SMI_CELLS = (
    *(b"[N/A]", b"ERR!", b"[Unknown Error]", b" %", b"MiB", b"GiB", b"W", b"101 %", b"-1 %", b"index, ", b"uuid, "),
    *(b"2023/03/14 07:52:06.453, ", b"9999/12/31 23:59:59.999", b"0001/01/01 00:00:00.000", b"2023/03/26 02:30:00.000"),
    *(b"timestamp, utilization.gpu [%]\n", b"utilization.gpu [", b"[]", b"memory.used", b"pci.bus_id, ", b"1" * 400),
)

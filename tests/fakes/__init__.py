"""Stand-ins for machines that tests do not have: GPUs, their driver library, and the kernel's files about jobs.

`node.FakeNode` is a whole GPU node; `nvml`, `proc`, `cgroup` and `pci` are its parts.
"""

"""What this machine is: GPUs, drivers, HIP runtimes."""

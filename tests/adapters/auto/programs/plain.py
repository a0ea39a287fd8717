"""Ends as its arguments say; it knows nothing of any recording."""

import os
import signal
import subprocess
import sys
import time

print("ready", flush=True)
if "wait" in sys.argv:
    time.sleep(60)
if "kill" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
if "raise" in sys.argv:
    raise ValueError("no such city")
if "child" in sys.argv:
    subprocess.run([sys.executable, sys.argv[-1]], check=True)
print(sys.stdin.read())

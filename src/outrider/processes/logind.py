"""Whether background processes of this user end with their session, as logind can be told to."""

import subprocess

MAX_ANSWER_SECONDS = 5.0


def ends_with_session(loginctl: str | None) -> bool:
    """Whether logind kills what a user has left running, as this program of it says."""
    if loginctl is None:
        return False
    # Without a session, its properties are those of logind itself.
    asked = [loginctl, "show-session", "--property=KillUserProcesses"]
    ran = subprocess.run(
        asked, capture_output=True, text=True, timeout=MAX_ANSWER_SECONDS, check=False
    )
    return "KillUserProcesses=yes" in ran.stdout

"""Which folders a run sees and changes: the walls of its child, and what its programs write to."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

from outrider.models.known_providers import NETWORK_VARIABLES, PROVIDERS, ModelProvider
from outrider.processes.walls import SHARED, LayeredFolder, Walls
from outrider.protocol.brief import Brief
from outrider.protocol.tool_catalogue import run_commands
from outrider.settings.places import home
from outrider.workspaces.credentials import credentials_below
from outrider.workspaces.layers.audit import begin_ledger
from outrider.workspaces.layers.copying import copy_folder


def walls_for(
    brief: Brief,
    env: Mapping[str, str],
    own: tuple[str, ...] = (),
    layered: LayeredFolder | None = None,
) -> Walls:
    """Return what a run sees of the files and may write to; `own` is what it keeps to itself.

    Of its own record it sees nothing: only its parent writes that.
    """
    user, state = _real_home(env), os.path.realpath(brief.state_folder or os.devnull)
    hides = not brief.allow_credential_files and not needs_credentials(brief)
    # For what was cut from results; its parent makes it.
    spill = (os.path.realpath(brief.spill_folder),) if brief.spill_folder else ()
    layer = (layered.layer,) if layered else ()
    return Walls(
        writable=(*spill, *own, *_in_place(brief), *layer),
        seen=(user, *_seen(brief, env)),
        private=(f"{state}/runs", f"{state}/warm"),
        hidden=tuple(credentials_below(user)) if hides else (),
        # Language servers and build tools keep caches there, and some don't start where they can't.
        # Daemons have `/` for a home, over which nothing can be put.
        home=user if user != "/" and (brief.lsp or run_commands(brief.tools)) else None,
        layered=layered,
    )


def new_layer(brief: Brief, *, may_copy: bool = True) -> LayeredFolder | None:
    """Return the folder of a writer with a new layer, and None where it writes to none.

    Raises `OSError` where the layer would lie in the folder itself.
    """
    if brief.layer is None:
        return None
    folder, layer = map(os.path.realpath, (brief.cwd, brief.layer))
    if f"{layer}/".startswith(f"{folder}/"):
        why = f"{layer} is in {folder}: a layer can't lie in the folder that it is put over"
        raise OSError(f"{why}. Work in another folder, or set OUTRIDER_HOME")
    begin_ledger(Path(layer), Path(folder), brief.layer_bytes)
    if brief.isolation != "copy":
        for name in ("upper", "work"):
            os.mkdir(f"{layer}/{name}", 0o700)
        os.chmod(f"{layer}/upper", os.stat(folder).st_mode & 0o7777)
    copies = may_copy and brief.isolation != "overlay"
    return LayeredFolder(folder, layer, partial(copy_folder, folder, layer) if copies else None)


def writable_for_programs(brief: Brief, env: Mapping[str, str], *, walled: bool) -> tuple[str, ...]:
    """Return the folders that commands and language servers of a run may write to."""
    # Without walls it is the user's own, which no program may change.
    users = (user,) if walled and (user := _real_home(env)) != "/" else ()
    folder = (os.path.realpath(brief.cwd),) if brief.layer else ()
    # Not where results are kept: the child itself writes and reads there.
    return (*_in_place(brief), *folder, *map(os.path.realpath, SHARED), *users)


def needs_credentials(brief: Brief) -> bool:
    """Whether the provider of the run's model signs in with files that are hidden otherwise."""
    provider = _provider(brief)
    return provider is not None and provider.signs_in_by_file


def _real_home(env: Mapping[str, str]) -> str:
    return os.path.realpath(home(env))


def _in_place(brief: Brief) -> tuple[str, ...]:
    """Return the folders that are changed in place, none where the run only reads."""
    if brief.isolation != "none":
        return ()
    roots = (os.path.expanduser(root) for root in brief.allowed_roots)
    return tuple(map(os.path.realpath, (brief.cwd, *roots)))


def _seen(brief: Brief, env: Mapping[str, str]) -> Iterator[str]:
    yield brief.cwd
    yield from (os.path.expanduser(root) for root in brief.allowed_roots)
    yield from filter(os.path.isabs, os.get_exec_path(env))
    yield from brief.tool_path
    provider = _provider(brief)
    # Certificates and keys lie where these say.
    for name in chain(NETWORK_VARIABLES, provider.others if provider else ()):
        if os.path.isabs(path := env.get(name, "")):
            yield path


def _provider(brief: Brief) -> ModelProvider | None:
    return PROVIDERS.get(brief.model.partition(":")[0])

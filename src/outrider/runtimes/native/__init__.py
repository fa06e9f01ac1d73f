"""Our own child: forked from a fork server where there is one, else started cold."""

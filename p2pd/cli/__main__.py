"""`python -m p2pd.cli` is `p2pd`: for child processes of this very interpreter."""

from p2pd.cli.entry import main

main()

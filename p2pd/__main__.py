"""`python -m p2pd` is `p2pd`."""

from p2pd.cli import main

main()

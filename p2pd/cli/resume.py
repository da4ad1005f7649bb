"""`p2pd resume`."""

from p2pd.cli.of_node import ConfigFile, DataDir, data_dir_of, tell_trainer
from p2pd.cli.output import AsJson


def command(
    *, data_dir: DataDir = None, config: ConfigFile = None, in_json: AsJson = False
) -> None:
    tell_trainer(data_dir_of(data_dir, config), "resume", in_json=in_json)

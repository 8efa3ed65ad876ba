"""The knobs of a server and a database without an application, as tests of plans take them."""

from leadline.model.knob import Knob
from leadline.stack.options import KNOBS as LIMITS
from leadline.stack.registry import database, server
from leadline.stack.web.common import KNOBS as WEB_KNOBS


def service_catalogue(server_name: str, database_name: str) -> list[Knob]:
    """Those of the web servers in front and the limits of all, too. Raises UsageError for an unknown name."""
    return [*server(server_name).knobs(), *database(database_name).knobs(), *WEB_KNOBS, *LIMITS]

"""All rules, one module a layer."""

from leadline.advice.look import Rule
from leadline.advice.rules import application, database, jvm, kernel, server

LAYERS = ("kernel", "database", "server", "jvm", "driver", "application")
RULES: tuple[Rule, ...] = (
    *kernel.RULES,
    *database.RULES,
    *server.RULES,
    *jvm.RULES,
    *application._DRIVER,
    *application.RULES,
)

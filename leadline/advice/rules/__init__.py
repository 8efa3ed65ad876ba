"""All rules."""

from leadline.advice.look import Rule
from leadline.advice.rules import machine, services

LAYERS = ("kernel", "database", "server", "jvm", "driver", "application")
RULES: tuple[Rule, ...] = (
    *machine.KERNEL_RULES,
    *services.DATABASE_RULES,
    *services.SERVER_RULES,
    *machine.JVM_RULES,
    *services._DRIVER,
    *services.APPLICATION_RULES,
)

"""The remote caller of dealership: a process that does the plant's requests by remote calls of the server."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.host.base import Process
from leadline.model.errors import LeadlineError
from leadline.stack.applications.dealership.beside import Beside
from leadline.stack.applications.dealership.knobs import AGENTS
from leadline.stack.applications.health import ask
from leadline.stack.deployment import RemoteBean

BEAN = RemoteBean("PlantAgents", "leadline.dealership.remote.RemoteDealership")
_POPULATION = "plant"  # of the scenario


class Caller(Beside):
    """The load driver plans, sends and measures the requests of the plant's agents as ever, and sends them here."""

    title = "the remote caller"
    name = "caller"
    knob_names = (AGENTS.name,)

    def takes(self) -> Mapping[str, str]:
        """Population of the scenario -> where its requests go."""
        return {_POPULATION: self.address}

    def start(self) -> Process:
        context, client = self.context, self.context.client
        if client is None:
            raise LeadlineError(f"{self.title} was given no way to call the server")
        words = ["call", "--host", context.listen, "--port", str(context.port), "--bean", client.bean]
        words += [word for key, value in client.naming.items() for word in ("--naming", f"{key}={value}")]
        return self.run(client.options, client.class_path, words, client.reads)

    def agents(self) -> str:
        """``remote`` once the server has done a call for it; ``http`` where it does not run. Raises LookupError with
        its own words where the server did not.
        """
        if self._process is None:
            return "http"
        agents_answer = ask(self.name, self.url, "/agents", timeout=30.0)
        if "agents" not in agents_answer:
            raise LookupError(f"{self.title} cannot call the server: {agents_answer.get('error')}")
        return str(agents_answer["agents"])

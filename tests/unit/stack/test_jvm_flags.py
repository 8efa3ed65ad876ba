"""Product flags of a JVM as knobs: from what it prints, and those of the JVM that is here."""

from pathlib import Path

import pytest

from leadline.host.java import find_java
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind
from leadline.model.study import StackChoice
from leadline.places.knobs import flags_called
from leadline.stack.registry import not_a_knob, server_of, stack_catalogue
from leadline.stack.servers import jvm

VALUES = """[Global flags]
     intx TieredStopAtLevel      = 4             {product} {default}
    uintx MaxHeapFreeRatio       = 70         {manageable} {default}
     bool UseStringDeduplication = false         {product} {default}
   size_t CodeCacheSegment       = 128        {pd product} {ergonomic}
   double Scaling                = 1.500000      {product} {default}
    ccstr AllocateHeapAt         =               {product} {default}
   size_t MaxHeapSize            = 4194304       {product} {ergonomic}
"""
RANGES = """[Global flags ranges]
     intx TieredStopAtLevel [ 0 ...   4 ] {product} {default}
    uintx MaxHeapFreeRatio  [ 0 ... 100 ] {manageable} {default}
   double Scaling           [ 0.000 ... 2.000 ] {product} {default}
      int Processors        [  ... ] {product} {default}
"""


def test_flags_have_type_default_and_range_as_the_jvm_prints_them() -> None:
    knobs = jvm.knobs_in(VALUES, RANGES)
    tiered, ratio = knobs["jvm.flag.TieredStopAtLevel"], knobs["jvm.flag.MaxHeapFreeRatio"]
    assert (tiered.kind, tiered.default, tiered.minimum, tiered.maximum) == (Kind.INTEGER, 4, 0, 4)
    assert (tiered.apply_cost, ratio.apply_cost) == (ApplyCost.RESTART, ApplyCost.LIVE)
    assert knobs["jvm.flag.UseStringDeduplication"].default is False
    assert knobs["jvm.flag.CodeCacheSegment"].kind is Kind.SIZE
    assert (knobs["jvm.flag.Scaling"].default, knobs["jvm.flag.Scaling"].maximum) == (1.5, 2)
    assert (knobs["jvm.flag.AllocateHeapAt"].kind, knobs["jvm.flag.AllocateHeapAt"].default) == (Kind.TEXT, None)
    assert "jvm.flag.MaxHeapSize" not in knobs
    assert "the knob jvm.heap here" in jvm.elsewhere("jvm.flag.MaxHeapSize", knobs)
    assert jvm.elsewhere("jvm.flag.TieredStop", knobs).endswith("did you mean jvm.flag.TieredStopAtLevel?")
    assert jvm.elsewhere("vm.swappiness", knobs) == ""


def test_levels_become_options_and_are_read_from_values() -> None:
    knobs = jvm.knobs_in(VALUES, RANGES)
    dedup, scaling = knobs["jvm.flag.UseStringDeduplication"], knobs["jvm.flag.Scaling"]
    levels = {"jvm.heap": 64 << 20, dedup.name: True, "jvm.flag.MaxHeapFreeRatio": 50}
    options = jvm.options(levels, None, knobs)
    assert options[-2:] == ["-XX:+UseStringDeduplication", "-XX:MaxHeapFreeRatio=50"]
    assert jvm.flags({"jvm.flag.MaxHeapFreeRatio": 50}) == {"flag.jvm.flag.MaxHeapFreeRatio": "MaxHeapFreeRatio=50"}
    assert (jvm.level_of(dedup, "true"), jvm.level_of(scaling, "0.5")) == (True, 0.5)
    with pytest.raises(LookupError, match="Scaling"):
        jvm.level_of(scaling, "half")


def test_the_jvm_that_is_here_tells_its_flags_and_refuses_what_it_does_not_take() -> None:
    choice = StackChoice.model_validate({"server": "tomcat"})
    known = {knob.name: knob for knob in stack_catalogue(choice)}
    assert known["jvm.flag.TieredStopAtLevel"].maximum == 4
    assert known["jvm.flag.MaxHeapFreeRatio"].apply_cost is ApplyCost.LIVE
    assert known["jvm.flag.MaxHeapFreeRatio"].name in {knob.name for knob in server_of(choice).knobs()}
    assert not_a_knob(choice, "jvm.flag.UseG1GC") == "the flag UseG1GC is the knob jvm.collector here; write that"
    home = find_java()
    assert jvm.refusal(home, ["-XX:TieredStopAtLevel=1"]) == ""
    assert "Unrecognized VM option" in jvm.refusal(home, ["-XX:+NoSuchFlag"])
    assert jvm.flag_knobs(Path("/nonexistent")) == {}


def test_a_study_of_a_flag_is_checked_by_the_jvm(tmp_path: Path) -> None:
    from leadline.checks.files.study import parse_study
    from leadline.checks.plan import plan_study
    from leadline.host.local import LocalHost

    text = "study: s\nquestion: q?\nstack: { server: tomcat }\nworkload: { users: 1 }\nfactors:\n"
    text += "  jvm.flag.AllocateHeapAt: [/none, /nor]\n"
    file = parse_study(text, "s.yaml")
    with pytest.raises(UsageError, match=r"s.yaml:6: the JVM refuses jvm.flag.AllocateHeapAt /none: .*/none"):
        plan_study(file, LocalHost(state=tmp_path), stack_catalogue(file.study.stack))


@pytest.mark.parametrize("name", ["-XX:+UseStringDeduplication", "stringdedup", "-XX:UseStringDeduplication=true"])
def test_a_flag_is_found_by_its_name_at_the_jvm(name: str) -> None:
    assert "jvm.flag.UseStringDeduplication" in [knob.name for knob in flags_called(name)]
    assert flags_called("NoFlagIsCalledSo") == flags_called("G1") == []

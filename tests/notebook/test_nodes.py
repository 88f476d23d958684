"""Notebooks as nbformat makes them, without its import."""

from __future__ import annotations

import fastjsonschema
import nbformat
import pytest

from nbagent.notebook import nodes

OUTPUTS = [{"output_type": "stream", "name": "stdout", "text": "1\n"}]
FACTS = {"nbagent": {"role": "cell"}}


def test_nodes_are_those_that_nbformat_makes() -> None:
    v4 = nbformat.v4
    text = nodes.new_markdown_cell("*a*", id="a", metadata=FACTS)
    code = nodes.new_code_cell("1", id="b", metadata=FACTS, outputs=OUTPUTS, execution_count=3)
    assert text == v4.new_markdown_cell("*a*", id="a", metadata=FACTS)
    assert nodes.new_code_cell("1", id="b", metadata=FACTS) == v4.new_code_cell("1", id="b", metadata=FACTS)
    assert code == v4.new_code_cell("1", id="b", metadata=FACTS, outputs=OUTPUTS, execution_count=3)
    made = nodes.new_notebook([text, code], {"kernelspec": {"name": "k", "display_name": "K"}})
    assert made == v4.new_notebook(cells=[text, code], metadata=made["metadata"])
    nodes.validate(made)
    nbformat.validate(nbformat.from_dict(made))


@pytest.mark.parametrize("wrong", [{"source": 5}, {"id": "a b"}, {"cell_type": "other"}, {"more": 1}])
def test_what_nbformat_would_not_take_is_turned_down(wrong: nodes.Node) -> None:
    cell = nodes.new_markdown_cell("a", id="a", metadata={}) | wrong
    with pytest.raises(fastjsonschema.JsonSchemaException):
        nodes.validate(nodes.new_notebook([cell], {}))

"""Graphs in the words of other tools."""

import json
import sys

import luminal_lab as ll
from luminal_lab.errors import DeviceError
from tests.expect import error_of
from tests.needs import need
from tests.viz.graphs import gpt2, hostile, softmax, trained_mlp

graphviz = need("graphviz")
pygraphviz = need("pygraphviz")


def test_dot_is_a_digraph_that_graphviz_reads():
    for cx in (softmax(), gpt2(2), trained_mlp()):
        payload = cx.display().payload
        made = cx.to_dot()
        assert isinstance(made, graphviz.Digraph)
        read = pygraphviz.AGraph(string=made.source)
        closed = sum(not box.is_open for box in payload.boxes)
        assert read.number_of_nodes() == len(payload.items) + closed
        assert len({tuple(edge) for edge in read.edges()}) == len(
            {(link.source, link.target) for link in payload.links}
        )


def test_the_dot_of_a_softmax(golden):
    golden(softmax().to_dot().source, "golden/softmax.dot")


def test_the_mermaid_of_a_gpt2(golden):
    golden(gpt2(3).display().to_mermaid() + "\n", "golden/gpt2.mmd")


def test_model_explorer_gets_nodes_namespaces_and_edges(golden):
    made = ll.parse(str(softmax().ir)).display().to_model_explorer()
    golden(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "golden/softmax.explorer.json")
    nodes = gpt2(2).display(depth=9).to_model_explorer()["graphs"][0]["nodes"]
    known = {node["id"] for node in nodes}
    assert len(known) == len(nodes)
    assert {edge["sourceNodeId"] for node in nodes for edge in node["incomingEdges"]} <= known
    assert "gpt2/h.0 … h.1/attn" in {node["namespace"] for node in nodes}


def test_of_a_pair_old_and_new_nodes_have_ids_of_their_own():
    before = ll.parse("graph g(%x: f32[2]) -> (%1) { %1 = sin %x : f32[2] }")
    after = ll.parse("graph g(%x: f32[2]) -> (%1) { %1 = sqrt %x : f32[2] }")
    nodes = ll.diff(before, after).display().to_model_explorer()["graphs"][0]["nodes"]
    assert [node["id"] for node in nodes] == ["%x", "%1 before", "%1"]


def test_hostile_names_are_quoted():
    shown = hostile().display()
    text = shown.to_mermaid()
    assert "<script" not in text
    assert text.count('"') % 2 == 0
    read = pygraphviz.AGraph(string=shown.to_dot().source)
    assert read.number_of_nodes() == len(shown.payload.items) + sum(
        not box.is_open for box in shown.payload.boxes
    )
    json.dumps(shown.to_model_explorer())


def test_without_graphviz_there_is_mermaid(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    error = error_of(softmax().to_dot, DeviceError)
    assert error.message == "to_dot: it needs the package graphviz, which is not installed"
    assert error.hint == "pip install graphviz; display().to_mermaid() needs nothing"

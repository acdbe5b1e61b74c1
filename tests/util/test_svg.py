from xml.etree import ElementTree

from rlver_gym.util.svg import draw_line_chart


def test_the_picture_names_every_line_and_is_valid_xml():
    svg = draw_line_chart({"a < b": [(10, 40.0), (20, 62.0)]}, {"random": 38.0, "listen": 38.5})
    texts = list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"))
    assert {"a < b 62", "random 38", "listen 38"} <= {node.text for node in texts}
    heights = [
        float(node.get("y", 0)) for node in texts if (node.text or "")[:4] in ("rand", "list")
    ]
    assert abs(heights[0] - heights[1]) >= 13, "labels of equal levels must not lie upon each other"

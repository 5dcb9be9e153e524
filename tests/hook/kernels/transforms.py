"""Transforms of generic TTIR, good and bad."""


def identity(text: str) -> str:
    return text


def other_constant(text: str) -> str:
    return text.replace("2.500000e+00", "3.500000e+00")


def another_spelling(text: str) -> str:
    """The same module, written in another way: it goes through the parser."""
    return "// rewritten\n" + text


def raises(text: str) -> str:
    raise ValueError("no such luck")


def no_ir(text: str) -> str:
    return "this is no IR"


def other_arguments(text: str) -> str:
    return text.replace("!tt.ptr<f32>", "!tt.ptr<f64>")


def nested(text: str) -> str:
    return "[" * 20000


def nothing(text: str) -> str:
    return ""

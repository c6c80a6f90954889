"""A user's C as far as it is read: what it defines, and a function's arguments."""

import pytest

from luminal_lab.kernels.user.c_text import CArgument, arguments, bare, functions, names, unbalanced

SOURCE = """\
#include <math.h>
#define TWICE(x) ((x) + \\
                  (x))
/* not a function: void wrong(int a) { } */
typedef struct { float a, b; } pair;
struct point { int x; };
enum kind { ROW, COLUMN = 4 };
static const float table[2][2] = {{1, 2}, {3, 4}};
static int count = 0, other;
static inline float add(const pair p) {
    const char *text = "void inside(int a) {"; // }
    if (p.a > 0) { return p.a; }
    return p.a + p.b;
}
void run(const float *restrict x, float y[], unsigned long n, size_t m) { }
extern float declared(int x);
"""


def test_functions_that_are_defined_at_the_top():
    found = functions(SOURCE)
    assert list(found) == ["add", "run"]
    assert found["add"].prototype == "float add(const pair p)"
    assert found["run"].prototype == (
        "void run(const float *x, float *y, unsigned long n, size_t m)"
    )


def test_names_at_the_top():
    expected = "COLUMN ROW add count kind other pair point run table"
    assert names(SOURCE) == expected.split()


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("const float *x", CArgument("float", True, True, "x")),
        ("float const * restrict x", CArgument("float", True, True, "x")),
        ("float *const x", CArgument("float", True, False, "x")),
        ("double x[4]", CArgument("double", True, False, "x")),
        ("long long", CArgument("long long", False, False, "")),
        ("unsigned n", CArgument("unsigned", False, False, "n")),
        ("real_t *", CArgument("real_t", True, False, "")),
    ],
)
def test_arguments(text, argument):
    assert arguments(text) == (argument,)


def test_no_arguments():
    assert arguments("") == arguments(" void ") == ()


def test_what_goes_leaves_the_lines_where_they_are():
    assert bare(SOURCE).count("\n") == SOURCE.count("\n")
    assert "wrong" not in bare(SOURCE)
    assert "inside" not in bare(SOURCE)
    assert bare("a /* \n */ b // c\nd '\"' e") == "a \n b  \nd   e"


def test_branches_of_the_preprocessor_may_open_one_block():
    assert unbalanced("#if A\nvoid g(int a) {\n#else\nvoid g(void) {\n#endif\n}\n") is None
    assert unbalanced('void f(void) { puts("{"); /* { */ }') is None

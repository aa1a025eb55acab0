"""Which names submodules and variables get, and who shares them."""

from typing import Any

from tests.differential.linen_programs.given import Given


def names(given: Given) -> None:
    nn, jnp, init, Dense, x, k = given.nn, given.jnp, given.init, given.Dense, given.x, given.k

    @given.case
    def name_in_use():
        def call(self, x):
            self.param("a", init.zeros, (2,))
            return Dense(2, name="a")(x)

        given.module(call)().init(k, x)

    @given.case
    def name_in_use2():
        def call(self, x):
            Dense(2, name="a")(x)
            return self.param("a", init.zeros, (2,))

        given.module(call)().init(k, x)

    @given.case
    def name_in_use3():
        def call(self, x):
            self.param("a", init.zeros, (2,))
            return self.param("a", init.zeros, (2,))

        given.module(call)().init(k, x)

    @given.case
    def name_cols():
        def call(self, x):
            self.param("a", init.zeros, (2,))
            return self.variable("s", "a", jnp.zeros, (2,)).value

        return given.module(call)().init(k, x)

    @given.case
    def name_in_use4():
        def call(self, x):
            Dense(2, name="Dense_0")(x)
            return Dense(2)(x)

        given.module(call)().init(k, x)

    @given.case
    def name_in_use5():
        def call(self, x):
            Dense(2, name="q")(x)
            return Dense(2, name="q")(x)

        given.module(call)().init(k, x)

    @given.case
    def two_calls():
        def call(self, x):
            return Dense(3)(x)

        class A(nn.Module):
            @nn.compact
            def __call__(self, x):
                m = given.module(call)()
                return m(m(x))

        return A().init(k, x)

    @given.case
    def dup_attr_setup():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)
                self.a = Dense(4)

            def __call__(self, x):
                return self.a(x)

        return A().init(k, x)

    @given.case
    def alias_setup():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)
                self.b = self.a
                self.c = [self.a, Dense(3)]

            def __call__(self, x):
                return self.c[1](self.b(self.a(x)))

        return A().init(k, x)

    @given.case
    def named_in_setup():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3, name="zz")

            def __call__(self, x):
                return self.a(x)

        return A().init(k, x)

    @given.case
    def unused_setup():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)
                self.b = Dense(4)

            def __call__(self, x):
                return self.a(x)

        return A().init(k, x)

    @given.case
    def param_attr_collision():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)
                self.p = self.param("a", init.zeros, (1,))

            def __call__(self, x):
                return self.a(x)

        return A().init(k, x)

    @given.case
    def shared_field():
        class B(nn.Module):
            d: nn.Module

            @nn.compact
            def __call__(self, x):
                return self.d(x)

        class A(nn.Module):
            def setup(self):
                d = Dense(3)
                self.b = B(d)
                self.c = B(d)
                self.d = d

            def __call__(self, x):
                return self.d(self.c(self.b(x)))

        return A().init(k, x)

    @given.case
    def shared_field2():
        class B(nn.Module):
            d: nn.Module

            @nn.compact
            def __call__(self, x):
                return self.d(x)

        class A(nn.Module):
            @nn.compact
            def __call__(self, x):
                d = Dense(3)
                return B(d)(B(d)(x))

        return A().init(k, x)

    @given.case
    def shared_global():
        d = Dense(3)

        class B(nn.Module):
            d: nn.Module

            @nn.compact
            def __call__(self, x):
                return self.d(x)

        class A(nn.Module):
            @nn.compact
            def __call__(self, x):
                return B(d)(B(d)(x))

        return A().init(k, x)

    @given.case
    def shared_global_setup():
        d = Dense(3)

        class B(nn.Module):
            d: nn.Module

            @nn.compact
            def __call__(self, x):
                return self.d(x)

        class A(nn.Module):
            def setup(self):
                self.b = B(d)
                self.c = B(d)
                self.e = d

            def __call__(self, x):
                return self.e(self.c(self.b(x)))

        return A().init(k, x)

    @given.case
    def field_names():
        class A(nn.Module):
            b: Any

            @nn.compact
            def __call__(self, x):
                return self.b(x)

        return A(Dense(3, name="foo")).init(k, x)

    @given.case
    def preserve():
        class P(nn.Module):
            preserve_adopted_names: bool = True

            @nn.compact
            def __call__(self, x):
                return Dense(2)(x)

        class A(nn.Module):
            b: Any

            @nn.compact
            def __call__(self, x):
                return self.b(x)

        return A(P(name="foo")).init(k, x), A(P()).init(k, x)

    @given.case
    def dict_fields():
        class A(nn.Module):
            b: Any

            @nn.compact
            def __call__(self, x):
                for q in self.b.values():
                    x = q(x)
                return x, type(self.b).__name__

        return A({"u": Dense(3), "w": Dense(2)}).init_with_output(k, x)

    @given.case
    def dict_int_keys():
        class A(nn.Module):
            def setup(self):
                self.b = {1: Dense(3), 2: Dense(3)}

            @nn.compact
            def __call__(self, x):
                for q in self.b.values():
                    x = q(x)
                return x, type(self.b).__name__

        return A().init_with_output(k, x)

    @given.case
    def lists_deep():
        class A(nn.Module):
            def setup(self):
                self.a = [[Dense(1), Dense(2)], {"x": [Dense(3)]}]

            def __call__(self, x):
                return self.a[1]["x"][0](x), self.a[0][1](x)

        return A().init(k, x)

    @given.case
    def many_layers():
        class A(nn.Module):
            def setup(self):
                self.a = [Dense(1) for _ in range(12)]

            def __call__(self, x):
                return [d(x) for d in self.a]

        return A().init(k, x)

    @given.case
    def path_in():
        class B(nn.Module):
            @nn.compact
            def __call__(self):
                return self.path, self.name

        class A(nn.Module):
            @nn.compact
            def __call__(self):
                return self.path, self.name, B()(), B(name="q")()

        return A().apply({}), A(name="top").apply({})

    @given.case
    def compact_inherit():
        class A(nn.Module):
            @nn.compact
            def __call__(self, x):
                return Dense(3)(x)

        class B(A):
            @nn.compact
            def __call__(self, x):
                x = super().__call__(x)
                return Dense(3)(x)

        return B().init(k, x)

    @given.case
    def compact_inherit_setup():
        class A(nn.Module):
            f: int = 3

            def setup(self):
                self.d = Dense(self.f)

        class B(A):
            g: int = 2

            def setup(self):
                super().setup()
                self.e = Dense(self.g)

            def __call__(self, x):
                return self.e(self.d(x))

        return B(3, 4).init(k, x)

    @given.case
    def compact_name_scope():
        class A(nn.Module):
            @nn.compact_name_scope
            def foo(self, x):
                return Dense(3)(x)

            @nn.compact_name_scope
            def bar(self, x):
                return Dense(2)(x)

            @nn.compact
            def __call__(self, x):
                return self.bar(self.foo(Dense(3)(x)))

        return A().init(k, x)

    @given.case
    def parent_none():
        class A(nn.Module):
            @nn.compact
            def __call__(self, x):
                d = Dense(3, parent=None)
                return d.init(k, x), d.name

        return A().apply({}, x)

    @given.case
    def parent_bad():
        Dense(3, parent=3)

    @given.case
    def copy_in():
        class A(nn.Module):
            d: Any

            @nn.compact
            def __call__(self, x):
                return self.d.copy()(self.d.copy(name="o")(self.d(x)))

        return A(Dense(3)).init(k, x)

    @given.case
    def copy_setup():
        class A(nn.Module):
            d: Any

            def setup(self):
                self.e = self.d.copy()
                self.f = self.d.clone(features=2)

            def __call__(self, x):
                return self.f(self.e(self.d(x)))

        return A(Dense(3)).init(k, x)

    @given.case
    def clone_bound():
        class A(nn.Module):
            d: Any

            def setup(self):
                self.f = self.d.clone(features=2, name=None)

            def __call__(self, x):
                return self.f(self.d(x))

        return A(Dense(3)).init(k, x)

    @given.case
    def share_scope():
        class L(nn.Module):
            d: Any

            def setup(self):
                nn.share_scope(self, self.d)

            @nn.compact
            def __call__(self, x):
                y = self.d(x)
                A = self.param("A", init.normal(), (3, 1))
                return y + x @ A

        return L(Dense(2)).init(k, x), given.module(lambda self, x: L(Dense(2))(x))().init(k, x)

    @given.case
    def share_scope_child():
        class L(nn.Module):
            d: Any

            def setup(self):
                nn.share_scope(self, self.d)

            @nn.compact
            def __call__(self, x):
                return Dense(2)(self.d(x))

        class Inner(nn.Module):
            @nn.compact
            def __call__(self, x):
                return Dense(3, name="i")(x)

        return L(Inner()).init(k, x)

    @given.case
    def share_fields():
        class L(nn.Module):
            d: Any

            def setup(self):
                nn.share_scope(self, self.d)

            @nn.compact
            def __call__(self, x):
                return Dense(2)(self.d(x))

        class Inner(nn.Module):
            e: Any

            @nn.compact
            def __call__(self, x):
                return Dense(3, name="i")(self.e(x))

        return L(Inner(Dense(3))).init(k, x), given.module(
            lambda self, x: L(Inner(Dense(3)))(x)
        )().init(k, x)

    @given.case
    def share_setup():
        class L(nn.Module):
            def setup(self):
                self.d = Inner()
                nn.share_scope(self, self.d)

            @nn.compact
            def __call__(self, x):
                return Dense(2)(self.d(x))

        class Inner(nn.Module):
            def setup(self):
                self.e = Dense(3)

            def __call__(self, x):
                return self.e(x)

        return L().init(k, x)

    @given.case
    def share_collide():
        class L(nn.Module):
            def setup(self):
                self.d = Dense(3)
                nn.share_scope(self, self.d)

            @nn.compact
            def __call__(self, x):
                y = self.d(x)
                self.param("kernel", init.zeros, (1,))
                return y

        return L().init(k, x)

    @given.case
    def share_unbound():
        nn.share_scope(Dense(2), Dense(3))

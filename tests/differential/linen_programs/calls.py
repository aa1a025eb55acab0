"""init, apply, bind, and functions in place of methods."""

from tests.differential.linen_programs.given import Given


def calls(given: Given) -> None:
    lib, nn, _init, Dense, x, k = given.lib, given.nn, given.init, given.Dense, given.x, given.k

    @given.case
    def bad_method():
        return Dense(3).apply({}, x, method=lambda: 3)

    @given.case
    def bad_method2():
        return Dense(3).apply({}, x, method=3)

    @given.case
    def bad_method3():
        return Dense(3).apply({}, x, method="nope")

    @given.case
    def bad_method4():
        return Dense(3).apply({}, x, method="features")

    @given.case
    def bad_vars2():
        return Dense(3).apply({3: 3}, x)

    @given.case
    def bad_vars3():
        return Dense(3).apply({"params": {"params": {}}}, x)

    @given.case
    def reset_names_bind():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)
                self.b = [Dense(2)]

            def __call__(self, x):
                return self.b[0](self.a(x))

        b = A().bind(A().init(k, x))
        m, v = b.a.unbind()
        m2, v2 = b.unbind()
        return (
            m.name,
            m.scope is None,
            v,
            v2,
            b(x),
            m2.apply(v2, x),
            b.b[0].name,
            b.variables,
            b.path,
            b.a.path,
        )

    @given.case
    def unbind_bad():
        Dense(3).unbind()

    @given.case
    def unbound_vars():
        Dense(3).variables

    @given.case
    def unbound_rng():
        Dense(3).make_rng("a")

    @given.case
    def unbound_sow():
        Dense(3).sow("a", "b", 1)

    @given.case
    def unbound_has():
        Dense(3).has_variable("a", "b")

    @given.case
    def unbound_path():
        Dense(3).path

    @given.case
    def unbound_init():
        Dense(3).is_initializing()

    @given.case
    def unbound_call():
        Dense(3)(x)

    @given.case
    def unbound_plain():
        class A(nn.Module):
            def f(self, x):
                return x + 1

        return A().f(x)

    @given.case
    def setup_unbound():
        class A(nn.Module):
            def setup(self):
                pass

        A().setup()

    @given.case
    def use_after():
        leaked = []

        class A(nn.Module):
            @nn.compact
            def __call__(self, x):
                d = Dense(3)
                leaked.append(d)
                return d(x)

        A().init(k, x)
        return leaked[0](x)

    @given.case
    def merge():
        return nn.merge_param("a", None, 3), nn.merge_param("a", 3, None)

    @given.case
    def merge2():
        return nn.merge_param("a", None, None)

    @given.case
    def merge3():
        return nn.merge_param("a", 1, 1)

    @given.case
    def functions():
        f = lambda m, x: m(x) * 2
        i = nn.init(f, Dense(3))
        v = i(k, x)
        return (
            v,
            nn.apply(f, Dense(3))(v, x),
            nn.init_with_output(f, Dense(3))(k, x),
            nn.apply(f, Dense(3), mutable=["params"], capture_intermediates=True)(v, x),
            nn.apply(lambda m: m.make_rng("q"), Dense(3))({}, rngs={"q": k}),
        )

    @given.case
    def class_init():
        return Dense.init(k, x)

    @given.case
    def class_init2():
        return Dense.init(Dense, x)

    @given.case
    def class_apply():
        return Dense.apply(Dense, x)

    @given.case
    def interc():
        log = []

        def ic(nxt, args, kw, ctx):
            log.append((type(ctx.module).__name__, ctx.method_name))
            return nxt(*args, **kw)

        def ic2(nxt, args, kw, ctx):
            log.append("2")
            return nxt(*args, **kw)

        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)

            def __call__(self, x):
                return self.h(self.a(x))

            def h(self, x):
                return x

            @nn.nowrap
            def g(self):
                return 3

        with nn.intercept_methods(ic), nn.intercept_methods(ic2):
            A().init(k, x)
        return log

    @given.case
    def eval_shape():
        return lib.tree_util.tree_map(
            lambda s: (tuple(s.shape), str(s.dtype)), lib.eval_shape(Dense(3).init, k, x)
        )

    @given.case
    def unnamed_call_kw():
        class A(nn.Module):
            @nn.compact
            def __call__(self, x, *, train):
                return Dense(3)(x) * train

        return A().init(k, x, train=2.0)

    @given.case
    def method_submodule():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)

            def __call__(self, x):
                return self.a(x)

        v = A().init(k, x)
        return A().apply(v, x, method=lambda m, x: m.a(x)), A().apply(v, x, method="a")

    @given.case
    def init_method():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)
                self.b = Dense(2)

            def enc(self, x):
                return self.a(x)

            def dec(self, x):
                return self.b(x)

        return (
            A().init(k, x, method="enc"),
            A().init(k, x, method=A.dec),
            A().init_with_output(k, x, method=A().dec),
        )

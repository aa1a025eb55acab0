"""Collections: what is made, read, written, sown and returned."""

from tests.differential.linen_programs.given import Given


def variables(given: Given) -> None:
    lib, nn, jnp, init, Dense, x, k = (
        given.lib,
        given.nn,
        given.jnp,
        given.init,
        given.Dense,
        given.x,
        given.k,
    )

    @given.case
    def setup_var():
        class A(nn.Module):
            def setup(self):
                self.v = self.variable("s", "v", lambda: jnp.zeros(3))
                self.p = self.param("p", init.normal(), (3,))

            def __call__(self, x):
                self.v.value = self.v.value + 1
                return x + self.v.value + self.p

        v = A().init(k, x)
        return (
            v,
            A().apply(v, x, mutable="s"),
            A().apply(v, x, mutable=nn.DenyList("params")),
            A().apply(v, x, mutable=True),
        )

    @given.case
    def immut():
        class A(nn.Module):
            def setup(self):
                self.v = self.variable("s", "v", lambda: jnp.zeros(3))

            def __call__(self, x):
                self.v.value = self.v.value + 1
                return x

        v = A().init(k, x)
        return A().apply(v, x)

    @given.case
    def variable_missing():
        def call(self, x):
            return self.variable("s", "a", jnp.zeros, (2,)).value

        return given.module(call)().apply({}, x)

    @given.case
    def variable_missing2():
        def call(self, x):
            return self.variable("s", "a", jnp.zeros, (2,)).value

        return given.module(call)().apply({"s": {"b": x}}, x)

    @given.case
    def variable_noinit():
        def call(self, x):
            return self.variable("s", "a").value

        return given.module(call)().apply({"s": {"b": x}}, x, mutable=True)

    @given.case
    def variable_get():
        def call(self, x):
            return (
                self.has_variable("s", "b"),
                self.get_variable("s", "b"),
                self.get_variable("s", "c"),
                self.get_variable("s", "c", 3),
            )

        return given.module(call)().apply({"s": {"b": x}}, x, mutable=True)

    @given.case
    def put():
        def call(self, x):
            self.put_variable("s", "b", x + 1)
            self.put_variable("t", "c", x)

        return given.module(call)().apply({"s": {"b": x}}, x, mutable=["s", "t", "u"])

    @given.case
    def put_bad():
        def call(self, x):
            self.put_variable("s", "b", x + 1)

        return given.module(call)().apply({"s": {"b": x}}, x)

    @given.case
    def frozen_in():
        v = nn.FrozenDict(Dense(3).init(k, x))
        return (
            Dense(3).apply(v, x),
            type(Dense(3).apply(v, x, mutable=True)[1]).__name__,
            type(Dense(3).apply(v, x, mutable=True)[1]["params"]).__name__,
        )

    @given.case
    def capture_all():
        class A(nn.Module):
            def setup(self):
                self.a = Dense(3)

            def __call__(self, x):
                return self.h(self.a(x))

            def h(self, x):
                return x * 2

        v = A().init(k, x)
        return (
            A().apply(v, x, capture_intermediates=lambda m, n: True),
            A().apply(v, x, capture_intermediates=lambda m, n: isinstance(m, Dense), mutable="foo"),
            A().init(k, x, capture_intermediates=True),
            A().init(k, x, mutable=True),
            A().apply(v, x, mutable=["intermediates"]),
        )

    @given.case
    def sow_twice():
        def call(self, x):
            a = self.sow("intermediates", "h", x)
            b = self.sow("intermediates", "h", x + 1)
            c = self.sow("m", "l", x.sum(), reduce_fn=lambda a, b: a + b, init_fn=lambda: 0.0)
            self.sow("m", "l", x.sum(), reduce_fn=lambda a, b: a + b, init_fn=lambda: 0.0)
            return a, b, c

        m = given.module(call)()
        return (
            m.apply({}, x),
            m.apply({}, x, mutable=["m"]),
            m.apply({}, x, mutable=True),
            m.init(k, x),
            m.init_with_output(k, x, mutable=True),
        )

    @given.case
    def sow_name_used():
        def call(self, x):
            self.param("h", init.zeros, (1,))
            self.sow("intermediates", "h", x)
            Dense(3, name="h")

        m = given.module(call)()
        return m.init(k, x, mutable=True)

    @given.case
    def perturb():
        def call(self, x):
            x = Dense(3)(x)
            x = self.perturb("p", x)
            return x * 2

        m = given.module(call)()
        v = m.init(k, x)
        return (
            v,
            m.apply(v, x),
            m.apply({"params": v["params"]}, x),
            m.apply({"params": v["params"]}, x, mutable=["perturbations"]),
            m.apply({**v, "perturbations": {"p": x * 0 + 1}}, x),
            lib.grad(lambda p: m.apply({**v, "perturbations": p}, x).sum())(v["perturbations"]),
        )

    @given.case
    def perturb_missing_name():
        def call(self, x):
            x = Dense(3)(x)
            x = self.perturb("p", x)
            return x * 2

        m = given.module(call)()
        v = m.init(k, x)
        return m.apply({**v, "perturbations": {"q": x}}, x)

    @given.case
    def mutable_empty():
        return (
            Dense(3).apply(Dense(3).init(k, x), x, mutable=[]),
            Dense(3).apply(Dense(3).init(k, x), x, mutable=["zz"]),
            Dense(3).apply({**Dense(3).init(k, x), "zz": {}}, x, mutable=["zz"]),
        )

    @given.case
    def mutable_params_only():
        return Dense(3).init(k, x, mutable=["params"]), Dense(3).init(k, x, mutable="foo")

    @given.case
    def bind_mut():
        class A(nn.Module):
            @nn.compact
            def __call__(self):
                c = self.variable("c", "n", lambda: jnp.zeros(()))
                c.value += 1
                return c.value

        b = A().bind({"c": {"n": jnp.zeros(())}}, mutable=["c"])
        b()
        b()
        return b.variables, b.get_variable("c", "n")

    @given.case
    def is_init():
        def call(self, x):
            return (
                self.is_initializing(),
                self.is_mutable_collection("params"),
                self.is_mutable_collection("intermediates"),
            )

        return given.module(call)().init_with_output(k, x)[0], given.module(call)().apply({}, x)

    @given.case
    def dict_param():
        def call(self, x):
            return self.param("p", lambda r: {"a": lib.random.normal(r, (2,)), "b": [jnp.zeros(2)]})

        v = given.module(call)().init(k, x)
        return v, given.module(call)().apply(v, x)

    @given.case
    def param_kwargs():
        def call(self, x):
            return self.param(
                "p", lambda r, s, dtype: lib.random.normal(r, s, dtype), (2,), dtype=jnp.bfloat16
            )

        return given.module(call)().init(k, x)

    @given.case
    def variable_args():
        def call(self, x):
            return self.variable(
                "s", "p", lambda s, dtype: jnp.ones(s, dtype), (2,), dtype=jnp.bfloat16
            ).value

        return given.module(call)().init(k, x)

    @given.case
    def param_shape():
        return Dense(3).apply(Dense(4).init(k, x), x)

    @given.case
    def param_dtype_ok():
        v = Dense(3).init(k, x)
        return Dense(3).apply(lib.tree_util.tree_map(lambda a: a.astype(jnp.bfloat16), v), x)

    @given.case
    def nested_init():
        class A(nn.Module):
            @nn.compact
            def __call__(self, x):
                d = Dense(3, parent=None)
                v = self.param("v", lambda r: d.init(r, x)["params"])
                return d.apply({"params": v}, x)

        v = A().init(k, x)
        return v, A().apply(v, x)

    @given.case
    def partitioned():
        def call(self, x):
            w = self.param("w", nn.with_partitioning(init.normal(), ("a", "b")), (3, 2))
            return x @ w, type(
                self.param(
                    "u", nn.with_partitioning(init.normal(), ("a", "b")), (3, 2), unbox=False
                )
            ).__name__

        v = given.module(call)().init(k, x)
        return (
            nn.get_partition_spec(v)["params"]["w"] == lib.sharding.PartitionSpec("a", "b"),
            nn.unbox(v),
            given.module(call)().apply(v, x)[1],
        )

    @given.case
    def partitioned_var():
        def call(self, x):
            w = self.variable("s", "w", nn.with_partitioning(lambda: jnp.ones(3), ("a",)))
            w.value = w.value + 1
            u = self.variable(
                "s", "u", nn.with_partitioning(lambda: jnp.ones(3), ("a",)), unbox=False
            )
            return w.value, type(u.value).__name__

        y, v = given.module(call)().apply({}, x, mutable=True)
        return y, type(v["s"]["w"]).__name__, nn.unbox(v)

    @given.case
    def bad_filter():
        return Dense(3).apply(Dense(3).init(k, x), x, mutable=3.5)

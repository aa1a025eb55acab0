"""Which keys are drawn, also under transformations."""

from tests.differential.linen_programs.given import Given


def keys(given: Given) -> None:
    lib, nn, _init, Dense, x, k, k2 = (
        given.lib,
        given.nn,
        given.init,
        given.Dense,
        given.x,
        given.k,
        given.k2,
    )

    @given.case
    def bind_rng():
        def call(self):
            return self.make_rng("a"), self.make_rng("b")

        b = given.module(call)().bind({}, rngs={"a": k, "params": k})
        return b(), b(), b.has_rng("a"), b.has_rng("b")

    @given.case
    def rng_key_default():
        def call(self, x):
            return (
                self.make_rng(),
                self.make_rng("params"),
                self.make_rng("other"),
                self.has_rng("other"),
            )

        return given.module(call)().init_with_output({"params": k, "other": k2}, x)[0]

    @given.case
    def rngs_key_apply():
        def call(self, x):
            return self.make_rng("d")

        return given.module(call)().apply({}, x, rngs=k)

    @given.case
    def raw_key():
        return Dense(3).init(lib.random.PRNGKey(3), x)

    @given.case
    def no_params_rng():
        return Dense(3).init({"dropout": k}, x)

    @given.case
    def none_rng():
        return Dense(3).init({}, x)

    @given.case
    def make_rng_in_setup():
        class A(nn.Module):
            def setup(self):
                self.a = self.make_rng("q")

            def __call__(self):
                return self.a, self.make_rng("q")

        return A().apply({}, rngs={"q": k})

    @given.case
    def share_rng():
        def call2(self):
            return self.make_rng("q"), self.make_rng("q")

        Inner = given.module(call2)

        class L(nn.Module):
            def setup(self):
                self.d = Inner()
                nn.share_scope(self, self.d)

            @nn.compact
            def __call__(self):
                return self.make_rng("q"), self.d(), self.make_rng("q"), self.d.path, self.path

        return L().apply({}, rngs={"q": k}), given.module(lambda self: L()())().apply(
            {}, rngs={"q": k}
        )

    @given.case
    def vmap_init():
        return given.module(lambda self, x: lib.vmap(lambda r: Dense(3)(r))(x))().init(k, x)

    @given.case
    def vmap_init2():
        def call(self, x):
            d = Dense(3)
            return lib.vmap(d)(x)

        return given.module(call)().init(k, x)

    @given.case
    def vmap_apply():
        def call(self, x):
            d = Dense(3)
            return lib.vmap(d)(x)

        return given.module(call)().apply(
            {"params": {"Dense_0": {"kernel": x[:2].T @ x[:2], "bias": x[0]}}}, x
        )

    @given.case
    def vmap_apply2():
        def call(self, x):
            return lib.vmap(lambda r: Dense(3)(r))(x)

        return given.module(call)().apply(
            {"params": {"Dense_0": {"kernel": x[:2].T @ x[:2], "bias": x[0]}}}, x
        )

    @given.case
    def vmap_rng():
        def call(self, x):
            return lib.vmap(lambda r: lib.random.key_data(self.make_rng("a")))(x)

        return given.module(call)().apply({}, x, rngs={"a": k})

    @given.case
    def bad_rng2():
        return Dense(3).init(lib.random.split(k, 2), x)

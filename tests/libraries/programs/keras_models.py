"""Keras 3 on its jax backend: networks that are fitted, evaluated and used."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

_random = np.random.RandomState(5)
IMAGES = _random.rand(64, 12, 12, 1).astype(np.float32)
LABELS = _random.randint(0, 4, 64)
SEQUENCES = _random.rand(48, 9, 3).astype(np.float32)
TARGETS = SEQUENCES.sum(axis=(1, 2), keepdims=False)[:, None] / 9
TOKENS = _random.randint(1, 20, (32, 10))


def fitted(model, x, y, epochs=3, **compiled):
    """Losses of some epochs, what evaluation says, predictions and weights."""
    model.compile(**compiled)
    history = model.fit(x, y, batch_size=16, epochs=epochs, shuffle=False, verbose=0)
    found = {
        f"fit_{name}": np.asarray(values, np.float32) for name, values in history.history.items()
    }
    # Fewer at the end than in a batch.
    found["evaluated"] = np.asarray(
        model.evaluate(x[:40], y[:40], batch_size=16, verbose=0), np.float32
    )
    found["predicted"] = model.predict(x[:10], batch_size=4, verbose=0)
    found["weights"] = np.concatenate([np.ravel(w) for w in model.get_weights()])
    return found


def dense():
    """A perceptron by SGD with momentum."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.layers.Input((12, 12, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.LayerNormalization(),
            keras.layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    return fitted(model, IMAGES, LABELS, loss=loss, optimizer=optimizer, metrics=["accuracy"])


def convolutional():
    """A convolutional network with pooling and normalization of batches."""
    keras.utils.set_random_seed(1)
    inputs = keras.layers.Input((12, 12, 1))
    x = keras.layers.Conv2D(8, 3, padding="same", activation="relu", use_bias=False)(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.SeparableConv2D(8, 3, activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax")(x))
    return fitted(
        model,
        IMAGES,
        LABELS,
        loss="sparse_categorical_crossentropy",
        optimizer=keras.optimizers.SGD(0.1),
        metrics=["accuracy"],
    )


def recurrent():
    """An LSTM and a GRU one after the other."""
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [
            keras.layers.Input((9, 3)),
            keras.layers.LSTM(8, return_sequences=True),
            keras.layers.Bidirectional(keras.layers.GRU(6)),
            keras.layers.Dense(1),
        ]
    )
    return fitted(model, SEQUENCES, TARGETS, loss="mse", optimizer=keras.optimizers.SGD(0.05))


def attention():
    """Embedded tokens, attention with residual connections."""
    keras.utils.set_random_seed(3)
    inputs = keras.layers.Input((10,), dtype="int32")
    x = keras.layers.Embedding(20, 16)(inputs)
    y = keras.layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    x = keras.layers.LayerNormalization()(keras.layers.Add()([x, y]))
    x = keras.layers.Dense(16, activation="gelu")(x)
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.GlobalMaxPooling1D()(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fitted(
        model,
        TOKENS,
        (TOKENS[:, 0] > 10).astype(np.int32),
        loss=loss,
        optimizer=keras.optimizers.SGD(0.02),
    )


PROGRAMS = {
    "dense": dense,
    "convolutional": convolutional,
    "recurrent": recurrent,
    "attention": attention,
}

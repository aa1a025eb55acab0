// Classifies points of the plane in Node:
//
//   python -m kiln compile model:predict --arg "f32[n,2]" --name circle --target wasm32 -o out
//   cp main.mjs out && node out/main.mjs
//
// A page loads the same files: `import { load } from "./circle.mjs"`.
import { load } from "./circle.mjs";

const library = await load();
const points = Float32Array.of(0, 0, 0.5, -0.5, 1.5, 1.5);

// Sizes come first; what comes back is an array of its own.
const inside = library.circle({ n: 3 }, points);
for (const each of inside) console.log(each.toFixed(4));

// The same with arrays in the memory of the module, which many calls use: nothing is copied.
const call = library.circle.prepare({ n: 3 });
call.arrays.x = points;
call.run();
if (call.arrays.out.some((each, i) => each !== inside[i])) throw new Error("another answer");
call.free();

try {
  library.circle({ n: 0 }, points);
} catch (error) {
  console.log(error.message.split("\n")[1]);
}

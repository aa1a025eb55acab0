// Links the library in the folder that CIRCLE names: CIRCLE=$PWD/out cargo run
fn main() {
    let folder = std::env::var("CIRCLE").expect("CIRCLE names the folder of libcircle.a");
    println!("cargo:rerun-if-env-changed=CIRCLE");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static=circle");
    println!("cargo:rustc-link-lib=m");
}

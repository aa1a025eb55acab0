use std::ffi::{c_char, c_int, CStr};

#[repr(C)]
struct RawContext {
    _private: [u8; 0],
}

extern "C" {
    fn circle_create(workspace_bytes: i64) -> *mut RawContext;
    fn circle_destroy(context: *mut RawContext);
    fn circle_error(status: c_int) -> *const c_char;
    fn circle_workspace_size(n: i64) -> i64;
    fn circle(context: *mut RawContext, n: i64, x: *const f32, out: *mut f32) -> c_int;
}

/// What calls need besides their arguments, for up to `most` points.
struct Context(*mut RawContext);

impl Context {
    fn new(most: usize) -> Context {
        let made = unsafe { circle_create(circle_workspace_size(most as i64)) };
        assert!(!made.is_null(), "out of memory");
        Context(made)
    }

    fn inside(&mut self, points: &[[f32; 2]]) -> Result<Vec<f32>, String> {
        let mut out = vec![0.0; points.len()];
        let n = points.len() as i64;
        let status = unsafe { circle(self.0, n, points.as_ptr().cast(), out.as_mut_ptr()) };
        if status == 0 {
            return Ok(out);
        }
        Err(unsafe { CStr::from_ptr(circle_error(status)) }.to_string_lossy().into_owned())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        unsafe { circle_destroy(self.0) }
    }
}

fn main() -> Result<(), String> {
    let mut context = Context::new(3);
    for probability in context.inside(&[[0.0, 0.0], [0.5, -0.5], [1.5, 1.5]])? {
        println!("{probability:.4}");
    }
    Ok(())
}

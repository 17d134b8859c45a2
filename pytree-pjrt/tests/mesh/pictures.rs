//! Pictures of shardings.

use pytree_transform::device::{device_put, visualize_sharding};

use crate::mesh::partitions::two_by_two;
use crate::mesh::{mesh, numbers};

#[test]
fn parts_are_drawn_with_their_devices() {
    let Some(mesh) = two_by_two() else { return };
    let picture = |shape: &[usize], spec| {
        let x = device_put(&numbers(shape), mesh.divided(spec));
        visualize_sharding(&x)
    };
    let head = |shape: &str, spec: &str| {
        format!("f32[{shape}] on cpu mesh (data: 2, model: 2), divided by {spec}\n")
    };
    assert_eq!(
        picture(&[8, 6], ["data", "model"]),
        head("8,6", r#"("data", "model")"#)
            + "┌───────┬───────┐\n\
               │   0   │   1   │\n\
               ├───────┼───────┤\n\
               │   2   │   3   │\n\
               └───────┴───────┘\n"
    );
    // The device at position (1, 0) of the mesh holds the second row and the first column.
    assert_eq!(
        picture(&[8, 6], ["model", "data"]),
        head("8,6", r#"("model", "data")"#)
            + "┌───────┬───────┐\n\
               │   0   │   2   │\n\
               ├───────┼───────┤\n\
               │   1   │   3   │\n\
               └───────┴───────┘\n"
    );
    let vector = device_put(&numbers(&[8]), mesh.divided("model"));
    assert_eq!(
        visualize_sharding(&vector),
        head("8", r#"("model",)"#)
            + "┌─────────┬─────────┐\n\
               │   0,2   │   1,3   │\n\
               └─────────┴─────────┘\n"
    );
    let whole = device_put(&numbers(&[2, 3]), &mesh);
    assert_eq!(
        visualize_sharding(&whole),
        head("2,3", "()")
            + "┌─────────────┐\n\
               │   0,1,2,3   │\n\
               └─────────────┘\n"
    );
}

#[test]
fn further_axes_have_pictures_of_their_own() {
    let Some(cube) = mesh([("a", 2), ("b", 2), ("c", 2)]) else {
        return;
    };
    let x = device_put(&numbers(&[2, 3, 4, 4]), cube.divided(("a", None, "b", "c")));
    assert_eq!(
        visualize_sharding(&x),
        "f32[2,3,4,4] on cpu mesh (a: 2, b: 2, c: 2), divided by (\"a\", None, \"b\", \"c\")\n\
         axes 2 and 3\n\
         part 0 of axis 0\n\
         ┌───────┬───────┐\n\
         │   0   │   1   │\n\
         ├───────┼───────┤\n\
         │   2   │   3   │\n\
         └───────┴───────┘\n\
         part 1 of axis 0\n\
         ┌───────┬───────┐\n\
         │   4   │   5   │\n\
         ├───────┼───────┤\n\
         │   6   │   7   │\n\
         └───────┴───────┘\n"
    );
}

//! ResNet-18 compared with torchvision. The weights follow a formula.

use pytree::checkpoint::SaveOptions;
use pytree::models::ResNet18;
use pytree::prelude::*;
use serde_json::json;

use super::{Folder, assert_near};
use crate::goldens::files::{lengths, read};
use crate::goldens::formula::{hashed, values};

#[test]
fn logits_are_those_of_torchvision() {
    let golden = read("pretrained.json")["resnet18"].clone();
    assert_eq!(golden["published"].as_object().unwrap().len(), 122);
    let config = json!({"architecture": "resnet18", "num_classes": 1000});
    let folder = Folder::new("resnet18", &config);
    let mut tensors = values(&golden["published"], "");
    folder.save(&tensors);
    let mut resnet = ResNet18::from_pretrained(&folder.0).unwrap();
    let images = hashed(2 * 3 * 64 * 64, 1).map(|x| x as f32);
    // Images of torch have the axis of colours before those of space.
    let images = Tensor::new([2, 3, 64, 64], images.collect::<Vec<f32>>()).transpose([0, 2, 3, 1]);
    let logits = resnet.forward(&images);
    assert_eq!(logits.shape(), lengths(&golden["logits"]["shape"]));
    assert_near(
        "logits",
        &logits.to_vec::<f32>(),
        &golden["logits"]["data"],
        1e-4,
    );

    let again = folder.0.join("again.safetensors");
    checkpoint::save_with(&again, &resnet, &SaveOptions::new().names(resnet.names())).unwrap();
    tensors.retain(|name, _| !name.ends_with("num_batches_tracked"));
    assert_eq!(checkpoint::tensors(&again).unwrap(), tensors);
}

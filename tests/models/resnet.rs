//! ResNet-18 compared with torchvision. The weights follow a formula.

use pytree::checkpoint::SaveOptions;
use pytree::models::ResNet18;
use pytree::prelude::*;
use serde_json::{Value, json};

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

/// Each key of a configuration of timm is changed.
#[test]
fn settings_of_timm_are_used_or_refused() {
    let published = read("pretrained.json")["resnet18"]["published"].clone();
    let load = |key: &str, value: Value| {
        let mut config = json!({"architecture": "resnet18", "num_classes": 1000, "num_features": 512, "global_pool": "avg"});
        config[key] = value;
        let folder = Folder::new("resnet-settings", &config);
        folder.save_zeros(&published);
        ResNet18::from_pretrained(&folder.0).map_err(|error| error.to_string())
    };
    for (key, value) in [
        ("num_features", json!(256)),
        ("global_pool", json!("max")),
        ("model_args", json!({"output_stride": 8})),
        ("surprise", json!(1)),
    ] {
        let text = load(key, value).unwrap_err();
        assert!(text.contains(&format!("\n  {key}: expected ")), "{text}");
    }
    let text = load("num_classes", json!(10)).unwrap_err();
    assert!(
        text.contains("fc.weight") && text.contains("1000"),
        "{text}"
    );
    assert!(load("pretrained_cfg", json!({"tag": "tv_in1k", "crop_pct": 0.9})).is_ok());
}

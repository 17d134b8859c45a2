//! Fine-tunes a pretrained classifier of digits with adapters of low rank.
//!
//! Run it with `cargo run --release --example finetune`. It first writes a file as PyTorch would write it: the weights of a
//! classifier that was trained on upright digits, with the names and layouts of `torch.nn.Linear`. Then it loads the file
//! into a model of this library, and trains adapters so that the classifier reads digits that lie on their side. The
//! pretrained weights do not change. The adapters alone are saved, in a folder that keeps the best of them. `--short`
//! trains for fewer epochs.

#[path = "digits/data.rs"]
mod data;

use std::error::Error;
use std::path::Path;

use pytree::checkpoint::{
    self, CheckpointFolder, FolderOptions, Goal, LoadOptions, SaveOptions, WeightNames,
};
use pytree::nn::{Lora, LoraParam, accuracy};
use pytree::prelude::*;

use crate::data::{Digits, IMAGES, PIXELS, TRAINING};

const BATCH: usize = 64;
const RANK: usize = 8;

/// The number of the training images that are trained with. The others decide which adapters are best.
const TRAINED: usize = TRAINING - 180;

/// Images `[count, 64]` and the digits that they show.
type Data = (Tensor, Tensor);

/// The classifier, with the names that it has in this library.
#[derive(Module, Clone, Debug, PartialEq)]
struct Classifier {
    body: Mlp,
    head: Linear,
}

impl Classifier {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            body: Mlp::new(&[PIXELS, 128, 128], Activation::Relu, rngs),
            head: Linear::new(128, 10, rngs),
        }
    }

    fn forward(&self, images: &Tensor) -> Tensor {
        self.head
            .forward(&Activation::Relu.apply(&self.body.forward(images)))
    }

    fn accuracy(&self, (images, digits): &Data) -> f32 {
        accuracy(&self.forward(images), digits).item()
    }
}

/// The names of the same layers in PyTorch: `torch.nn.Sequential` counts the activations between the layers, too.
fn names() -> WeightNames {
    WeightNames::pytorch()
        .rename("features.{2*i}", "body.layers[{i}]")
        .rename("classifier", "head")
}

/// Trains the parameters that the filter selects, and calls `after` at the end of each epoch.
fn train<M: Model>(
    model: &mut M,
    filter: &Filter,
    logits: fn(&M, &Tensor) -> Tensor,
    (images, digits): &Data,
    epochs: usize,
    mut after: impl FnMut(usize, &M) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut optimizer = Optimizer::with_filter(model, adam(3e-3), filter);
    let trained = filter.clone();
    let step = jit_mut(
        move |(model, optimizer, x, y): (&mut M, &mut Optimizer<M>, Tensor, Tensor)| {
            let loss = |model: &M| softmax_cross_entropy(&logits(model, &x), &y).mean();
            let gradient = grad(loss).wrt(trained.clone())(model);
            optimizer.update(model, &gradient);
        },
    );
    let mut rngs = Rngs::new(1);
    for epoch in 1..=epochs {
        let order = rngs.next("shuffle").permutation(TRAINED);
        for start in (0..=TRAINED - BATCH).step_by(BATCH) {
            let at = order.index(ix![start..start + BATCH]);
            let (x, y) = (images.take(&at, 0), digits.take(&at, 0));
            step((&mut *model, &mut optimizer, x, y));
        }
        after(epoch, model)?;
    }
    Ok(())
}

/// Writes the file that this example fine-tunes: a classifier of upright digits under PyTorch's names.
fn pretrain(path: &Path, (training, test): (&Data, &Data)) -> Result<(), Box<dyn Error>> {
    let mut model = Classifier::new(&mut Rngs::new(0));
    train(
        &mut model,
        &Filter::param(),
        Classifier::forward,
        training,
        30,
        |_, _| Ok(()),
    )?;
    println!("upright digits, pretrained: {:.4}", model.accuracy(test));
    let options = SaveOptions::new().names(names()).metadata("format", "pt");
    Ok(checkpoint::save_with(path, &model, &options)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let epochs = match std::env::args().nth(1).as_deref() {
        None => 60,
        Some("--short") => 15,
        Some(other) => {
            return Err(format!("unknown argument `{other}`; write `--short` or nothing").into());
        }
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv");
    let (images, digits) = Digits::read(&file)?.batch(&(0..IMAGES).collect::<Vec<_>>());
    let sides = images
        .reshape([IMAGES, 8, 8])
        .swap_axes(1, 2)
        .reshape([IMAGES, PIXELS]);
    let part = |images: &Tensor, rows: std::ops::Range<usize>| {
        (images.index(ix![rows.clone()]), digits.index(ix![rows]))
    };
    let directory = std::env::temp_dir().join(format!("finetune-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let pretrained = directory.join("pretrained.safetensors");
    pretrain(
        &pretrained,
        (&part(&images, 0..TRAINED), &part(&images, TRAINING..IMAGES)),
    )?;
    for entry in checkpoint::inspect(&pretrained)? {
        println!("  {}: {}{:?}", entry.name, entry.dtype, entry.shape);
    }

    let [training, validation, test] =
        [0..TRAINED, TRAINED..TRAINING, TRAINING..IMAGES].map(|rows| part(&sides, rows));
    let mut rngs = Rngs::new(2);
    let options = LoadOptions::new().names(names());
    let (model, report) =
        checkpoint::load_with(&pretrained, &Classifier::new(&mut rngs), &options)?;
    println!("loaded: {report}");
    println!("digits on their side, before: {:.4}", model.accuracy(&test));

    // Only the adapters are trained and saved.
    let mut lora = Lora::new(&model, &Filter::param(), RANK, &mut rngs);
    let adapters = Filter::collection::<LoraParam>();
    let count = |filter: &Filter| -> usize {
        let part = partition::filter(&lora, filter);
        part.leaves().iter().map(Tensor::len).sum()
    };
    println!(
        "trained parameters: {} of {}",
        count(&adapters),
        count(&Filter::param())
    );
    let kept = FolderOptions {
        keep_last: 1,
        goal: Goal::Maximize,
        save: SaveOptions::new().metadata("rank", RANK.to_string()),
    };
    let folder = CheckpointFolder::with_options(directory.join("adapters"), kept)?;
    train(
        &mut lora,
        &adapters,
        |lora, x| lora.adapted().forward(x),
        &training,
        epochs,
        |epoch, lora| {
            let reached = lora.adapted().accuracy(&validation);
            if epoch % 15 == 0 {
                println!("epoch {epoch:2}: validation accuracy {reached:.4}");
            }
            let part = partition::filter(lora, &Filter::collection::<LoraParam>());
            folder.save(epoch, &part, f64::from(reached))?;
            Ok(())
        },
    )?;
    println!("pretrained weights unchanged: {}", lora.model == model);

    // In another program: the pretrained file, and the best adapters.
    let best = folder.best()?.ok_or("no adapters were saved")?;
    let mut again = Lora::new(&model, &Filter::param(), RANK, &mut rngs);
    let part = checkpoint::load(&best.path, &partition::filter(&again, &adapters))?;
    partition::update(&mut again, &part)?;
    let sizes =
        [&pretrained, &best.path].map(|path| std::fs::metadata(path).map(|file| file.len()));
    let [whole, alone] = sizes;
    println!(
        "bytes of the pretrained file: {}, of the adapters: {}",
        whole?, alone?
    );
    println!("test accuracy: {:.4}", again.adapted().accuracy(&test));
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

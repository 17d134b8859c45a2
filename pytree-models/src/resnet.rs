//! ResNet-18.

use pytree_core::{Module, shapes};
use pytree_io::checkpoint::WeightNames;
use pytree_nn::{BatchNorm, Conv, ConvOptions, ConvPadding, Linear, Pool, Rngs, eval, relu};
use pytree_transform::{Tensor, convolution::Padding};

use crate::error::ModelError;
use crate::folder::{Folder, Pretrained};

/// ResNet-18 (He et al. 2015), such as `timm/resnet18.tv_in1k`, which has the weights of torchvision.
///
/// # Examples
/// ```no_run
/// use pytree_models::ResNet18;
/// use pytree_transform::{DType, Tensor};
/// let mut resnet = ResNet18::from_pretrained("models/resnet18")?;
/// let logits = resnet.forward(&Tensor::zeros(DType::F32, [1, 224, 224, 3]));
/// assert_eq!(logits.shape(), [1, 1000]);
/// # Ok::<(), pytree_models::ModelError>(())
/// ```
#[doc(alias("torchvision.models.resnet18"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct ResNet18 {
    /// The first convolution, with kernels of 7 by 7 and strides of 2.
    pub conv1: Conv,
    /// The normalisation after it.
    pub bn1: BatchNorm,
    /// The pooling after the first convolution.
    pub pool: Pool,
    /// Four stages of two blocks. Each but the first halves the height and the width.
    pub stages: Vec<Vec<BasicBlock>>,
    /// The last layer.
    pub fc: Linear,
}

/// A block of [`ResNet18`]: two convolutions, whose result is added to the input.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct BasicBlock {
    /// The first convolution.
    pub conv1: Conv,
    /// The normalisation after it.
    pub bn1: BatchNorm,
    /// The second convolution.
    pub conv2: Conv,
    /// The normalisation after it.
    pub bn2: BatchNorm,
    /// The convolution and the normalisation of the input, if the block changes the shape.
    pub downsample: Option<(Conv, BatchNorm)>,
}

/// Creates a convolution that keeps the size of the image, divided by the stride.
fn conv(inputs: usize, outputs: usize, size: usize, stride: usize, rngs: &mut Rngs) -> Conv {
    let half = (size / 2).cast_signed();
    let options = ConvOptions {
        strides: stride.into(),
        padding: ConvPadding::from([(half, half); 2]),
        bias_init: None,
        ..ConvOptions::default()
    };
    Conv::with_options(inputs, outputs, [size, size], options, rngs)
}

impl BasicBlock {
    fn new(inputs: usize, outputs: usize, stride: usize, rngs: &mut Rngs) -> Self {
        Self {
            conv1: conv(inputs, outputs, 3, stride, rngs),
            bn1: BatchNorm::new(outputs, rngs),
            conv2: conv(outputs, outputs, 3, 1, rngs),
            bn2: BatchNorm::new(outputs, rngs),
            downsample: (stride > 1).then(|| {
                let conv = conv(inputs, outputs, 1, stride, rngs);
                (conv, BatchNorm::new(outputs, rngs))
            }),
        }
    }

    /// Returns an image with as many channels as the convolutions have outputs.
    #[track_caller]
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = relu(&self.bn1.forward(&self.conv1.forward(x)));
        let y = self.bn2.forward(&self.conv2.forward(&y));
        let shortcut = match &mut self.downsample {
            Some((conv, norm)) => norm.forward(&conv.forward(x)),
            None => x.clone(),
        };
        relu(&(y + shortcut))
    }
}

impl ResNet18 {
    /// Creates a model with random weights for a number of classes, whose normalisations use the statistics of the batch.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(classes: usize, rngs: &mut Rngs) -> Self {
        Self {
            conv1: conv(3, 64, 7, 2, rngs),
            bn1: BatchNorm::new(64, rngs),
            pool: Pool::max([3, 3])
                .strides(2)
                .padding(Padding::Explicit(vec![(1, 1); 2])),
            stages: [(64, 1), (128, 2), (256, 2), (512, 2)]
                .map(|(outputs, stride)| {
                    let first = BasicBlock::new(outputs / stride, outputs, stride, rngs);
                    vec![first, BasicBlock::new(outputs, outputs, 1, rngs)]
                })
                .into(),
            fc: Linear::new(512, classes, rngs),
        }
    }

    /// Loads a folder of timm. The normalisations use their stored statistics: [`train`](pytree_nn::train) changes that.
    ///
    /// # Errors
    /// Returns [`ModelError`] if a file is missing, if the folder has another architecture, or if the weights do not fit.
    pub fn from_pretrained(folder: impl Into<Pretrained>) -> Result<Self, ModelError> {
        let mut folder = Folder::open(folder, &["resnet18"])?;
        let classes = folder.size("num_classes");
        folder.check_width("512");
        let resnet = folder.load(names(), str::to_owned, |rngs| Self::new(classes, rngs))?;
        Ok(eval(&resnet))
    }

    /// Returns the names of torchvision, by which [`save_with`](pytree_io::checkpoint::save_with) writes a file for it.
    pub fn names(&self) -> WeightNames {
        names()
    }

    /// Returns the logits of images: `[batch, height, width, 3]` to `[batch, classes]`.
    ///
    /// # Panics
    /// If the images do not have three channels.
    #[shapes(x = "T: float[batch height width 3]", return = "T[batch _]")]
    #[track_caller]
    pub fn forward(&mut self, x: &Tensor) -> Tensor {
        let x = relu(&self.bn1.forward(&self.conv1.forward(x)));
        let mut x = self.pool.forward(&x);
        for block in self.stages.iter_mut().flatten() {
            x = block.forward(&x);
        }
        self.fc.forward(&x.mean_axes([1, 2]))
    }
}

/// The names of torchvision.
fn names() -> WeightNames {
    WeightNames::pytorch().rename("layer{i+1}", "stages[{i}]")
}

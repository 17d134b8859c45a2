//! A table with comments, texts and missing values, read with the crate `csv`, as `docs/how-to/data.md` shows.

use std::error::Error;

use pytree::prelude::*;

const TABLE: &str =
    "sepal,petal,species\n# measured twice\n5.1, 1.4, setosa\nNA,4.7,\"versicolor\"\n";

fn read(table: &str) -> Result<(Tensor, Tensor), Box<dyn Error>> {
    let mut builder = csv::ReaderBuilder::new();
    let mut reader = builder
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(table.as_bytes());
    let (mut numbers, mut labels) = (Vec::new(), Vec::new());
    for row in reader.records() {
        let row = row?;
        // A text that is no number is a missing value.
        let fields = row.iter().take(2);
        numbers.extend(fields.map(|field| field.parse().unwrap_or(f32::NAN)));
        let mut species = ["setosa", "versicolor"].iter();
        let label = species.position(|name| *name == &row[2]);
        labels.push(label.ok_or("another species")? as i32);
    }
    let x = Tensor::try_new([labels.len(), 2], numbers)?;
    Ok((x, Tensor::from(labels)))
}

#[test]
fn rows_of_crate_become_tensors() {
    let (x, y) = read(TABLE).unwrap();
    assert_eq!(y.to_vec::<i32>(), [0, 1]);
    let x = x.to_vec::<f32>();
    assert_eq!((x[0], x[1], x[3]), (5.1, 1.4, 4.7));
    assert!(x[2].is_nan());
    assert!(read("a,b,c\n1,2,virginica\n").is_err());
}
